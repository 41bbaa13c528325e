"""The builder of the bundled graph, on a distribution of a few packages."""

from __future__ import annotations

import gzip
import importlib.util
import lzma
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from typer.testing import CliRunner

from naq.errors import DataError
from naq.files import read_npz

TOOL = Path(__file__).resolve().parents[2] / "tools" / "build_debian.py"


def load_tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("build_debian", TOOL)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up by name
    spec.loader.exec_module(module)
    return module


tool = load_tool()

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
 .
 A second paragraph.
"""


@pytest.fixture
def binaries() -> list:
    return tool.read_binaries(PACKAGES, TRANSLATION)


def edges_by_name(binaries: list, **reading: str) -> set[tuple[str, str]]:
    sources = tool.group_by_source(binaries)
    names = list(sources)
    edges = tool.dependency_edges(sources, tool.Resolver.of(binaries, **reading))
    return {(names[a], names[b]) for a, b in edges.T}


@pytest.mark.parametrize(
    ("value", "groups"),
    [
        ("", []),
        ("a", [("a",)]),
        ("a (>= 1:2.0~rc), b:any | c [!amd64] , d <!nocheck>,", [("a",), ("b", "c"), ("d",)]),
        ("libstdc++6 (>= 12),\n python3:any (<< 3.12)", [("libstdc++6",), ("python3",)]),
    ],
)
def test_dependencies(value: str, groups: list[tuple[str, ...]]) -> None:
    assert tool.parse_dependencies(value) == groups


def test_binaries(binaries: list) -> None:
    by_name = {b.name: b for b in binaries}
    assert by_name["libsum1"].source == "sum" and by_name["zlib"].source == "zlib"
    assert by_name["libsum-dev"].section == "libdevel" and by_name["game"].section == "games"
    assert by_name["zlib"].provides == ("squeezer", "codec")
    assert by_name["game"].needs == (("gone", "libsum1", "dpkg"), ("squeezer",), ("codec",))


def test_words_come_from_names_and_long_descriptions(binaries: list) -> None:
    found = tool.group_by_source(binaries)["sum"].words
    assert {"libsum1", "libsum", "dev", "fractions", "paragraph", "developers"} <= found
    assert not found & {"42", "x"}


def test_alternatives_and_virtual_packages(binaries: list) -> None:
    sure = {("sum", "zlib"), ("sum", "dpkg"), ("game", "sum"), ("game", "zlib")}
    # codec has two providers, so dpkg recommends what comes after it, and game's need for it makes no edge.
    assert edges_by_name(binaries) == sure | {("dpkg", "zlib")}
    assert edges_by_name(binaries, alternatives="all") == sure | {("dpkg", "zlib"), ("game", "dpkg")}
    assert edges_by_name(binaries, providers="none") == (sure | {("dpkg", "zlib")}) - {("game", "zlib")}
    assert edges_by_name(binaries, providers="all") == sure | {("dpkg", "zlib"), ("game", "dpkg")}


def test_a_real_package_comes_before_its_providers() -> None:
    text = "Package: a\nProvides: b\n\nPackage: b\n\nPackage: c\nDepends: b\n"
    assert edges_by_name(tool.read_binaries(text, "")) == {("c", "b")}


@pytest.mark.parametrize(
    ("sections", "chosen"),
    [
        ({"libs": 3, "libdevel": 3, "doc": 1, "games": 1}, "games"),
        ({"net": 1, "web": 2}, "web"),
        ({"web": 1, "net": 1, "doc": 5}, "net"),
        ({"libdevel": 1, "libs": 1, "doc": 1}, "libs"),
        ({"libdevel": 2, "libs": 1}, "libdevel"),
        ({"doc": 1}, "doc"),
    ],
)
def test_section(sections: dict[str, int], chosen: str) -> None:
    assert tool.choose_section(Counter(sections)) == chosen


def test_hubs_keep_their_own_dependencies() -> None:
    edges = np.array([[1, 2, 3, 0], [0, 0, 0, 4]])
    assert tool.drop_hubs(edges, 5, 2).tolist() == [[0], [4]]
    assert tool.drop_hubs(edges, 5, 3).tolist() == edges.tolist()
    assert tool.drop_hubs(edges, 5, 0).tolist() == edges.tolist()


def test_document_frequency() -> None:
    documents = [{"all", "five", "four"}] * 4 + [{"all", "five"}, {"all"}]
    sources = {f"s{i}": tool.Source(words=set(words)) for i, words in enumerate(documents)}
    features, vocab = tool.bag_of_words(sources, 5)
    assert vocab == ["all", "five"]
    assert features.toarray().tolist() == [[1, 1]] * 5 + [[1, 0]]


def test_which_list_is_read(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="holds no list"):
        tool.find_list(tmp_path, "bookworm", "binary-amd64_Packages")
    for name in ("bookworm-updates_main", "bookworm_contrib", "bookworm_main"):
        (tmp_path / f"mirror_dists_{name}_binary-amd64_Packages.gz").write_bytes(b"")
    found = tool.find_list(tmp_path, "bookworm", "binary-amd64_Packages")
    assert found.name == "mirror_dists_bookworm_main_binary-amd64_Packages.gz"
    (tmp_path / "other_dists_bookworm_main_binary-amd64_Packages").write_bytes(b"")
    with pytest.raises(DataError, match="leave one"):
        tool.find_list(tmp_path, "bookworm", "binary-amd64_Packages")


def test_compressed_lists(tmp_path: Path) -> None:
    for suffix, data in {
        "": b"\xc3\xa9",
        ".gz": gzip.compress(b"\xc3\xa9"),
        ".xz": lzma.compress(b"\xc3\xa9"),
    }.items():
        path = tmp_path / f"list{suffix}"
        path.write_bytes(data)
        assert tool.read_text(path) == "é"


def many_packages(classes: int = 40, size: int = 30, hub: str = "") -> str:
    """Enough classes of enough packages for a split and tasks; those with needs also need the hub."""
    stanzas = [f"Package: {hub}\nSection: libs\nDescription: hub\n"] if hub else []
    also = f", {hub}" if hub else ""
    for c in range(classes):
        for i in range(size):
            needs = f"Depends: p{c}x{(i + 1) % size}{also}\n" if i % 3 else ""
            stanzas.append(f"Package: p{c}x{i}\nSection: topic{c:02}\n{needs}Description: about topic{c:02}\n")
    return "\n".join(stanzas)


def write_lists(lists: Path, packages: str) -> None:
    lists.mkdir()
    (lists / "mirror_dists_bookworm_main_binary-amd64_Packages").write_text(packages, encoding="utf-8")
    (lists / "mirror_dists_bookworm_main_i18n_Translation-en").write_text("", encoding="utf-8")


def test_hubs_are_dropped_unless_kept(tmp_path: Path) -> None:
    lists = tmp_path / "lists"
    write_lists(lists, many_packages(hub="hub"))
    edges = {}
    for title, options in {"default": [], "300": ["--hub-degree", "300"], "0": ["--hub-degree", "0"]}.items():
        out = tmp_path / title
        command = ["build", "--lists", str(lists), "--out", str(out), *options]
        assert CliRunner().invoke(tool.app, command).exit_code == 0
        edges[title] = len(read_npz(out / "debian.npz")["adj_indices"])
    assert edges == {"default": 800, "300": 800, "0": 1600}


@pytest.mark.parametrize("command", ["build", "stats"])
def test_help_shows_no_path_of_this_machine(command: str) -> None:
    result = CliRunner().invoke(tool.app, [command, "--help"], terminal_width=200)
    assert result.exit_code == 0
    assert "src/naq/io/bundled" in result.output and str(TOOL.parents[1]) not in result.output


def test_build_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    lists = tmp_path / "lists"
    write_lists(lists, many_packages())
    for out in ("one", "two"):
        result = CliRunner().invoke(tool.app, ["build", "--lists", str(lists), "--out", str(tmp_path / out)])
        assert result.exit_code == 0, result.output
    for name in ("debian.npz", "debian.tasks.npz"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    arrays = read_npz(tmp_path / "one" / "debian.npz")
    assert list(arrays["names"]) == sorted(arrays["names"]) and len(arrays["names"]) == 1200
    assert "attr_data" not in arrays and "adj_data" not in arrays
    tables = tool.statistics_tables(tmp_path / "one")
    assert "| nodes | 1,200 |" in tables and "| topic00 | 30 |" in tables
