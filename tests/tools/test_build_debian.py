"""The builder of the bundled graph, on a made-up distribution."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

from typer.testing import CliRunner

from naq.files import read_npz

spec = importlib.util.spec_from_file_location("build_debian", Path(__file__).parents[2] / "tools" / "build_debian.py")
assert spec is not None and spec.loader is not None
tool = importlib.util.module_from_spec(spec)
sys.modules[spec.name] = tool  # dataclasses look their module up by name
spec.loader.exec_module(tool)


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
