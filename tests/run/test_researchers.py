"""docs/researchers.md, run from top to bottom on a small graph; trackers that are not installed are stand-ins."""

from __future__ import annotations

import re
import sys
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import naq
from executed_page import run_page
from methods_under_test import community_graph, short_run
from naq.io import save_graph

PAGE = Path(__file__).parents[2] / "docs" / "researchers.md"


class Anything:
    """A stand-in for a tracker's module: takes any call."""

    def __getattr__(self, name: str) -> Any:
        return lambda *given, **named: self


class TrialPruned(Exception):
    """Of the stand-in for Optuna."""


class Study:
    """Prunes every second trial at its first report."""

    def __init__(self) -> None:
        self.values: list[float | None] = []

    def optimize(self, objective: Any, n_trials: int) -> None:
        for number in range(n_trials):
            trial = SimpleNamespace(
                suggest_float=lambda name, low, high, log: (low * high) ** 0.5,
                report=lambda value, step: None,
                should_prune=lambda number=number: number % 2 == 1,
            )
            try:
                self.values.append(objective(trial))
            except TrialPruned:
                self.values.append(None)


@pytest.fixture
def graph(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> naq.Graph:
    """In place of debian; it has a split for five-way tasks."""
    graph = community_graph(size=16, classes=20)
    monkeypatch.setattr(naq, "load", {"debian": graph}.__getitem__)
    monkeypatch.setenv("NAQ_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("naq.run.evaluate.TEST_TASKS", 40)
    for name in ("torch.utils.tensorboard", "wandb", "mlflow"):
        monkeypatch.setitem(sys.modules, name, Anything())  # type: ignore[arg-type]
    return graph


def test_the_page(
    graph: naq.Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    study, installed = Study(), find_spec("optuna") is not None
    if not installed:
        pruners = SimpleNamespace(MedianPruner=lambda n_startup_trials: None)
        module = SimpleNamespace(TrialPruned=TrialPruned, pruners=pruners, create_study=lambda direction, pruner: study)
        monkeypatch.setitem(sys.modules, "optuna", module)  # type: ignore[arg-type]
    assert run_page(PAGE, tmp_path, monkeypatch, capsys) == {"console": 0, "python": 8, "file": 0}
    if not installed:
        assert [value is None for value in study.values] == [False, True, False, True]


def test_the_table_of_phases_is_what_a_run_says(graph: naq.Graph, tmp_path: Path) -> None:
    table = re.findall(r"^\| `(\w+)` \| (.*) \|$", PAGE.read_text(encoding="utf-8"), re.M)
    documented = {phase: set(re.findall(r"`(\w+)`", text)) for phase, text in table}
    heard: dict[str, set[str]] = {}

    def listen(phase: str, facts: Any) -> None:
        heard.setdefault(phase, set()).update(facts)

    file = save_graph(tmp_path / "g.npz", graph)
    for _ in range(2):
        short_run(file, None, way=5, episodes=4, evaluate_every=2, listener=listen, out=tmp_path / "run")
    naq.run(graph, "bgrl", epochs=1, options={"hidden": 8, "latent": 8}, listener=listen)
    heard["warning"] = {"text"}
    assert heard == documented
