"""The builder of the bundled graph, on a distribution of a few packages."""

from __future__ import annotations

import importlib.util
import sys
from collections import Counter
from pathlib import Path

from typer.testing import CliRunner

from naq.files import read_npz

spec = importlib.util.spec_from_file_location("build_debian", Path(__file__).parents[2] / "tools" / "build_debian.py")
assert spec is not None and spec.loader is not None
tool = importlib.util.module_from_spec(spec)
sys.modules[spec.name] = tool  # dataclasses look their module up by name
spec.loader.exec_module(tool)

PACKAGES = """\
Package: libsum1
Source: sum (1.0-2)
Section: libs
Description: adds
Description-md5: aa
Pre-Depends: zlib (>= 1) [amd64], dpkg:any

Package: libsum-dev
Source: sum
Section: contrib/libdevel
Description: adds, for developers
Depends: libsum1 (= 1.0-2), missing

Package: zlib
Section: libs
Description: squeezes
Provides: squeezer (= 2), codec

Package: dpkg
Section: admin
Description: installs
Provides: codec
Recommends: gone | codec | zlib

Package: game
Section: non-free/games
Description: plays
Depends: gone | libsum1 | dpkg, squeezer,
 codec
"""
TRANSLATION = """\
Package: libsum1
Description-md5: aa
Description-en: adds numbers
 The long text mentions Fractions and 42 and x.
"""


def test_sources_words_and_dependencies() -> None:
    binaries = tool.read_binaries(PACKAGES, TRANSLATION)
    sources = tool.group_by_source(binaries)
    assert {"libsum", "dev", "fractions", "developers"} <= sources["sum"].words and "42" not in sources["sum"].words
    names = list(sources)
    edges = {(names[a], names[b]) for a, b in tool.dependency_edges(binaries, sources).T}
    # codec has two providers, so dpkg recommends what comes after it, and game's need for it makes no edge.
    assert edges == {("sum", "zlib"), ("sum", "dpkg"), ("game", "sum"), ("game", "zlib"), ("dpkg", "zlib")}


def test_the_section_is_the_commonest_topic() -> None:
    assert tool.choose_section(Counter({"libs": 3, "doc": 1, "games": 1})) == "games"
    assert tool.choose_section(Counter({"web": 1, "net": 1, "doc": 5})) == "net"
    assert tool.choose_section(Counter({"libdevel": 1, "libs": 1, "doc": 1})) == "libs"


def test_build_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    stanzas = ["Package: hub\nSection: libs\nDescription: hub\n"]
    for c in range(40):
        for i in range(30):
            needs = f"Depends: p{c}x{(i + 1) % 30}, hub\n" if i % 3 else ""
            stanzas.append(f"Package: p{c}x{i}\nSection: topic{c:02}\n{needs}Description: about topic{c:02}\n")
    (tmp_path / "mirror_dists_bookworm_main_binary-amd64_Packages").write_text("\n".join(stanzas))
    (tmp_path / "mirror_dists_bookworm_main_i18n_Translation-en").write_text("")
    for out in ("one", "two"):
        command = ["build", "--lists", str(tmp_path), "--out", str(tmp_path / out)]
        assert CliRunner().invoke(tool.app, command).exit_code == 0
    for name in ("debian.npz", "debian.tasks.npz"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    assert len(read_npz(tmp_path / "one" / "debian.npz")["adj_indices"]) == 800  # without edges to the hub
