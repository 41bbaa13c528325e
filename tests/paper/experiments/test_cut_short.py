"""Trainings that reached their limit are marked in their row."""

from __future__ import annotations

import pytest

from fake_records import record_for, train_result
from naq_paper.experiments.captions import LEGEND, ends_of
from naq_paper.experiments.experiment import expand
from naq_paper.experiments.request import Request
from naq_paper.experiments.seed_groups import training
from naq_paper.experiments.views import Label, TableView

REQUEST = Request("methods", ("debian",), methods=("bgrl", "naq-feat/protonet"), facts={"debian": {"most_classes": 6}})


def trained(method, seed, *, best, last=100, early=False, request=REQUEST):
    cell = training(request, "debian", method, seed=seed, options={})
    result = train_result(cell)
    if result["history"] is not None:
        result["facts"] |= {"best_step": best, "steps_trained": last, "stopped_early": early}
        result["history"]["steps"] = [last - 20, last]
    return record_for(cell, result)


def test_a_limit_below_the_papers_is_a_cut():
    ends = ends_of([trained("bgrl", seed, best=60) for seed in range(3)])
    assert ends.mark == "cut at 100 epochs"
    assert ends.words == "at the limit, 100 (paper 10,000)"


def test_trainings_that_were_still_improving_are_counted():
    ends = ends_of([trained("bgrl", 0, best=100), trained("bgrl", 1, best=80), trained("bgrl", 2, best=40, early=True)])
    assert ends.mark == "2 of 3 cut at 100 epochs, 1 of 3 still improving"
    assert ends.words == "2 of 3 at the limit, 100 (paper 10,000); 1 of 3 still improving"


def test_what_stopped_by_itself_was_not_cut():
    ends = ends_of([trained("bgrl", seed, best=60, early=True) for seed in range(3)])
    assert ends.mark == "" and ends.words == "by itself, limit 100"


@pytest.mark.parametrize(("best", "mark"), [(380, ""), (400, "cut at 400 epochs, still improving")])
def test_at_the_papers_own_limit_only_what_still_improved_was_cut(best, mark):
    request = Request("methods", ("debian",), "paper")
    assert ends_of([trained("vnt", 0, best=best, last=400, request=request)]).mark == mark


def test_learners_are_counted_in_episodes_and_a_shared_training_once():
    record = trained("naq-feat/protonet", 0, best=800, last=800)
    assert ends_of([record, record]).mark == "cut at 800 episodes, still improving"


def test_what_trains_nothing_has_no_end():
    assert ends_of([trained("smooth", 0, best=0)]) is None and ends_of([]) is None


def table_where(early):
    def find(cell):
        result = train_result(cell)
        if result["history"] is not None:
            result["facts"]["stopped_early"] = early
        return record_for(cell, result)

    [study] = expand(REQUEST, find)
    tables = {view.name: view for view in study.views() if isinstance(view, TableView)}
    return tables["methods-debian"], tables["methods-cost-debian"]


def test_the_row_and_the_costs_say_it():
    table, costs = table_where(early=False)
    marks = {row[0].text: row[0].remark for row in table.rows if isinstance(row[0], Label)}
    assert marks == {"TLP-BGRL": "cut at 100 epochs", "ProtoNet": "cut at 800 episodes"} and LEGEND in table.note
    stopped = {row[0]: row[costs.columns.index("stopped")] for row in costs.rows}
    assert stopped["TLP-BGRL"] == "at the limit, 100 (paper 10,000)" and stopped["smooth (no training)"] == "–"
    table, costs = table_where(early=True)
    assert not any(isinstance(row[0], Label) for row in table.rows) and LEGEND not in table.note
    assert {row[costs.columns.index("stopped")] for row in costs.rows} == {"by itself, limit 100", "by itself, limit 800", "–"}  # fmt: skip
