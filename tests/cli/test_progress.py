"""What is shown: progress on a terminal and elsewhere, and the table of ``naq run``."""

from __future__ import annotations

import io
import threading

import pytest
from rich.console import Console

from fake_records import train_result
from naq.cli import terminal as cli_terminal
from naq.errors import LONGEST, warn
from naq.run import Result
from naq_paper.measurements.train import train_cell


@pytest.fixture
def shown(monkeypatch):
    """A console of this kind and what it was given."""

    def use(*, terminal):
        out = io.StringIO()
        monkeypatch.setattr(cli_terminal, "console", Console(file=out, force_terminal=terminal, width=120))
        return out

    return use


def train(done, total):
    return {"done": done, "total": total, "unit": "episodes", "loss": 1.0, "valid": 0.5, "best": 0.5, "seconds": 2.0}


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

    monkeypatch.setattr(cli_terminal, "Timer", Waits)
    out = shown(terminal=False)
    with cli_terminal.show_progress("protonet") as listener:
        listener("build", {})
        listener("embed", {})
        patience_ends()
        listener("test", {})
    patience_ends()
    assert len(waiting) == 3 and all(timer.interval in (0, cli_terminal.PATIENCE) for timer in waiting)
    assert out.getvalue() == "protonet: embedding\n"


@pytest.mark.parametrize("phase", ["train", "neighbors"])
def test_elsewhere_long_work_is_a_line_every_tenth(shown, monkeypatch, phase):
    monkeypatch.setattr(cli_terminal, "PATIENCE", 0.0)
    out = shown(terminal=False)
    with cli_terminal.show_progress("protonet") as listener:
        for done in range(0, 105, 5):
            listener(phase, train(done, 100))
    lines = out.getvalue().splitlines()
    assert len(lines) == 10 and "100 of 100 episodes" in lines[-1]


@pytest.mark.parametrize("terminal", [True, False])
def test_warnings_plans_and_finished_runs_are_lines(shown, terminal):
    out = shown(terminal=terminal)
    with cli_terminal.show_progress("bgrl") as listener:
        listener("warning", {"text": "resumed elsewhere."})
        listener("plan", {"plan": "whole graph"})
        listener("finished", {"folder": "runs/x"})
    assert all(f"bgrl: {text}" in out.getvalue() for text in ("resumed elsewhere.", "whole graph", "already done"))


def test_on_a_terminal_one_bar_follows_the_phases(shown):
    out = shown(terminal=True)
    with cli_terminal.show_progress("cosmic") as listener:
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
            assert (task.total is None) == (phase in cli_terminal.PHASES)
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
        said = cli_terminal.shown(title, text)
        assert len(said) <= LONGEST and said.isprintable()
    with pytest.warns(UserWarning) as told:
        warn("w\x1b" * 5000, stacklevel=1)
    assert len(str(told[0].message)) <= LONGEST and told[0].filename == __file__


@pytest.mark.parametrize("dirichlet", [True, False])
def test_a_table_has_inductive_heads_first_and_a_column_for_dirichlet_queries(dirichlet):
    data = train_result(train_cell("debian", "naq-feat/teg"))
    data["evaluations"] = {head: e for head, e in data["evaluations"].items() if dirichlet or "/dirichlet" not in head}
    made = Result.from_json(data)
    table = cli_terminal.result_table([made])
    more = ["Dirichlet(2) %"] if dirichlet else []
    assert [one.header for one in table.columns] == ["method", "head", "way", "shot", "accuracy %", *more, "seconds"]
    cells = [list(column.cells) for column in table.columns]
    heads = ["logistic (chosen)", "prototype", "transductive *", "em *", "balanced **"]
    assert [name for name in cells[1] if not name.startswith("own")] == heads
    assert ("Dirichlet(2)" in table.caption) == dirichlet and "**" in table.caption
    if dirichlet:
        by_head = dict(zip(cells[1], cells[5]))
        assert by_head["logistic (chosen)"] == "" and by_head["prototype"]
        assert f"{100 * made.evaluations['em/dirichlet'].accuracy:.2f}" in by_head["em *"]
