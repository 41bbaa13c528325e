"""Computing: settings in one round, trainings with them in the next, and failures that hold up nothing else."""

from __future__ import annotations

import pytest

from naq_paper.cells.runners import Setup, make_runner
from naq_paper.cells.store import Store
from naq_paper.experiments.experiment import StoredRecords, cells_of, compute, expand
from naq_paper.experiments.names import PAPER_GENERATORS
from naq_paper.experiments.profiles import PROFILES
from naq_paper.experiments.request import Request


@pytest.fixture
def grid(wide, tmp_path):
    """A runner with a store, and what looks records up in it."""
    store, setup = Store(tmp_path / "results"), Setup({"wide": wide}, None)
    with make_runner("local") as runner:
        yield runner, setup, StoredRecords(store, runner.dataset_cache(setup))


def test_settings_are_chosen_in_one_round_and_trained_with_in_the_next(grid):
    runner, setup, find = grid
    request = Request("label-noise", ("wide",), "quick", episodes=4, tune=True, options={"protonet": {"latent": 8}})
    [study] = studies = expand(request, find)
    rounds = []

    def listener(phase, facts):
        if phase == "plan":
            rounds.append(facts["todo"])

    first = compute(studies, find, runner, setup, listener)
    assert first.complete and not first.skipped
    rows = {kind: f"ProtoNet ({PAPER_GENERATORS[kind]})" for kind in ("supervised", "naq-feat", "naq-diff")}
    for kind, row in rows.items():
        group = study.groups[row, 0.0]
        tried = [cell for _, cell in group.candidates]
        assert (
            all(cell in first.done for cell in tried) and len(tried) == len(PROFILES["default"].tried("protonet")) == 3
        )
        valid = [find(cell).result["facts"]["valid_accuracy"] for cell in tried]
        chosen = tried[valid.index(max(valid))].config["options"]
        assert chosen["lr"] == group.setting(find)["lr"] and chosen["latent"] == 8
        noisy = [cell for cell in first.done if cell.config["perturbation"] and cell.config["method"].startswith(kind)]
        assert all(cell.config["options"] == chosen for cell in noisy) and bool(noisy) == (kind == "supervised")
    assert len(rounds) == 2 and rounds[0] == 3 * 3 + 1 and sum(rounds) == len(first.done) == len(set(first.done))
    assert set(cells_of(studies)) == set(first.done)
    again = compute(studies, find, runner, setup, listener)
    assert again.complete and not again.done and set(again.skipped) == set(first.done) and rounds[2:] == [0]


def test_what_failed_does_not_hold_up_the_rest(grid):
    runner, setup, find = grid
    studies = expand(Request("overlap-drop", ("wide",), "quick", episodes=4, ways=(5, 9), learners=("protonet",)), find)
    outcome = compute(studies, find, runner, setup)
    assert {failure.cell.config["way"] for failure in outcome.failed} == {9}
    assert {cell.config["way"] for cell in outcome.done} == {5} and not outcome.complete
    assert all("9-way" in failure.sentence for failure in outcome.failed)
    again = compute(studies, find, runner, setup)
    assert len(again.left) == len(outcome.failed) and not again.done and not again.failed
