"""What is shown while a run works, on a terminal and elsewhere."""

from __future__ import annotations

import io
import threading

import pytest
from rich.console import Console

from naq.cli import progress
from naq.errors import LONGEST, warn


@pytest.fixture
def shown(monkeypatch):
    """A console of this kind and what it was given."""

    def use(*, terminal):
        out = io.StringIO()
        monkeypatch.setattr(progress, "console", Console(file=out, force_terminal=terminal, width=120))
        return out

    return use


def train(done, total):
    return {
        "done": done,
        "total": total,
        "unit": "episodes",
        "loss": 1.0,
        "valid": 0.5,
        "best": 0.5,
        "seconds": 2.0,
    }


def test_elsewhere_a_phase_is_a_line_only_if_it_takes_long(shown, monkeypatch):
    """A timer whose time comes when the test says so."""
    waiting = []

    class Waits(threading.Timer):
        def start(self):
            waiting.append(self)

    def patience_ends():
        for timer in waiting:
            if not timer.finished.is_set():
                timer.interval = 0
                timer.run()

    monkeypatch.setattr(progress, "Timer", Waits)
    out = shown(terminal=False)
    with progress.show_progress("protonet") as listener:
        listener("build", {})
        listener("embed", {})
        patience_ends()
        listener("test", {})
    patience_ends()
    assert len(waiting) == 3 and all(timer.interval in (0, progress.PATIENCE) for timer in waiting)
    assert out.getvalue() == "protonet: embedding\n"


def test_elsewhere_training_is_a_line_every_tenth(shown):
    out = shown(terminal=False)
    with progress.show_progress("protonet") as listener:
        for done in range(5, 105, 5):
            listener("train", train(done, 100))
    lines = out.getvalue().splitlines()
    assert len(lines) == 10 and lines[0].startswith("protonet: 10 of 100 episodes, loss 1.000  valid 50.0 %")


def test_elsewhere_a_long_table_is_a_line_every_tenth(shown, monkeypatch):
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    out = shown(terminal=False)
    with progress.show_progress("cosmic") as listener:
        listener("neighbors", {"done": 0, "total": 1_000})
        for done in range(50, 1_050, 50):
            listener("neighbors", {"done": done, "total": 1_000})
    lines = out.getvalue().splitlines()
    assert len(lines) == 10 and lines[-1] == "cosmic: neighbours of 1,000 of 1,000 nodes"


@pytest.mark.parametrize("terminal", [True, False])
def test_warnings_plans_and_finished_runs_are_lines(shown, terminal):
    out = shown(terminal=terminal)
    with progress.show_progress("bgrl") as listener:
        listener("warning", {"text": "resumed elsewhere."})
        listener("plan", {"plan": "whole graph"})
        listener("finished", {"folder": "runs/x"})
    assert all(
        f"bgrl: {text}" in out.getvalue() for text in ("resumed elsewhere.", "whole graph", "already done in runs/x")
    )


def test_on_a_terminal_one_bar_follows_the_phases(shown):
    out = shown(terminal=True)
    with progress.show_progress("cosmic") as listener:
        for phase, facts in (
            ("load", {}),
            ("neighbors", {"done": 3, "total": 7}),
            ("build", {}),
            ("neighbors", {"done": 5, "total": 9}),
            ("train", train(16, 160)),
        ):
            listener(phase, facts)
            assert len(listener.progress.tasks) == 1 and listener.progress.tasks[0].visible
            task = listener.progress.tasks[0]
            assert (task.total is None) == (phase in progress.PHASES)
            listener.progress.refresh()
    text = out.getvalue()
    assert all(word in text for word in ("loading", "preparing", "neighbours", "5/9", "training", "16/160", "left"))
    assert "/?" not in text, "no count where the length is unknown"


def test_no_warning_is_longer_than_a_message() -> None:
    """Titles and texts are of files, which hold anything."""
    for title, text in (
        ("x" * 900, "y" * 5000),
        ("a/" + "n" * 200, "n" * 200 + ": " + "z" * 900),
        ("é\x1b" * 300, "\n" * 900),
    ):
        said = progress.shown(title, text)
        assert len(said) <= LONGEST and said.isprintable()
    with pytest.warns(UserWarning) as told:
        warn("w\x1b" * 5000, stacklevel=1)
    assert len(str(told[0].message)) <= LONGEST and told[0].filename == __file__
