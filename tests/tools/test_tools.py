"""Every script of tools/ and benchmarks/ answers ``--help``; pages show the stored results; the README's code runs."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import naq
from methods_under_test import community_graph

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = [
    path
    for folder in ("tools", "benchmarks")
    for path in sorted((ROOT / folder).glob("*.py"))
    if '__name__ == "__main__"' in path.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_help(script: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.syspath_prepend(str(script.parent))
    monkeypatch.setattr(sys, "argv", [str(script), "--help"])
    monkeypatch.setattr(os, "environ", os.environ.copy())
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(script), run_name="__main__")
    assert ended.value.code == 0 and "usage" in capsys.readouterr().out.lower()


@pytest.mark.slow
def test_pages_show_the_stored_results() -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, ROOT / "tools" / "pages.py", "--check"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_code_of_the_readme_runs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On a small graph, with fewer episodes."""
    graph = community_graph(size=20, classes=30)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NAQ_CACHE", str(tmp_path))
    monkeypatch.setattr(naq, "load", lambda name: graph)
    code = "\n".join(re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.S))
    for old, new in {
        "episodes=960": "episodes=4",
        "count=16_000": "count=16",
        "count=500": "count=20",
        '{"bash": "shells", "vim": "editors"}': '{0: "shells", 25: "editors"}',
    }.items():
        assert code.count(old) == 1
        code = code.replace(old, new)
    names: dict[str, object] = {}
    exec(compile(code, "README.md", "exec"), names)
    assert names["z"].shape[0] == graph.num_nodes and names["e"].support.shape[0] == 16  # type: ignore[attr-defined]
    assert "%" in capsys.readouterr().out
