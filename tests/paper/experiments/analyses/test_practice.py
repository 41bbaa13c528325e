"""``naq reproduce practice``: its cells, what it compares, and that it runs from graph to page."""

from __future__ import annotations

import numpy as np
import pytest

import methods_under_test as suite
from fake_records import finds, practice_result, record_for
from naq.errors import OptionError
from naq.io import save_graph
from naq_paper.cells.datasets import DatasetCache
from naq_paper.cells.runners import Setup, make_runner
from naq_paper.cells.store import Store
from naq_paper.experiments.analyses.practice import (
    DRAWS,
    OTHERS,
    OURS,
    SHOTS,
    SLOW,
    against_best,
    column_of,
    standings_of,
)
from naq_paper.experiments.datasets import make_requests
from naq_paper.experiments.experiment import StoredRecords, compute, expand
from naq_paper.experiments.folder import Requests
from naq_paper.experiments.request import Request
from naq_paper.experiments.views import LineView, Missing, Number, TableView, TextView
from naq_paper.peers import PEERS
from naq_paper.report.collect import page_of


def study_of(find=lambda cell: None, **given):
    [study] = expand(Request("practice", ("cora",), **given), find)
    return study


def table_of(views, name):
    return next(view for view in views if isinstance(view, TableView) and view.name == name)


def found_with(means, draws=5):
    """A ``find`` in which methods have these means."""
    return lambda cell: record_for(cell, practice_result(cell, mean=means[cell.config["peer"]]))


def test_every_method_answers_every_draw():
    study = study_of()
    assert set(study.groups) == set(PEERS) == {*OURS, *OTHERS}
    cells = study.cells()
    assert len(cells) == sum(SLOW.get(peer, DRAWS) for peer in PEERS) and {
        tuple(cell.config["shots"]) for cell in cells
    } == {SHOTS}
    drawn = {
        row: {cell.config["seed"] for cell in group.cells(finds())} for row, group in study_of(seeds=8).groups.items()
    }
    assert drawn["naq-plus"] == set(range(8)) and drawn["gcn"] == set(range(SLOW["gcn"]))
    some = study_of(methods=("naq-plus", "gcn"), shots=(5, 1), seeds=2)
    assert list(some.groups) == ["naq-plus", "gcn"] and some.cells()[0].config["shots"] == [1, 5]
    with pytest.raises(OptionError, match="there is no practical method 'gnn'"):
        study_of(methods=("gnn",))


def test_methods_are_compared_draw_by_draw():
    """A draw is as hard for everybody: the difference is far more certain than either accuracy."""
    study = study_of(finds(), seeds=6, methods=("naq-plus", "sgc", "ssgc", "hops-logistic", "graphany"))
    column = column_of(study, list(study.groups), (1, "equal"), "accuracy")
    best, test = against_best(column)
    assert best in OTHERS and test.difference.paired and test.significant
    assert 100 * test.difference.ci95 < 100 * column["naq-plus"].ci95
    own = [column["naq-plus"].per_task, column[best].per_task]
    assert test.difference.mean == pytest.approx((own[0] - own[1]).mean())
    assert standings_of(column)[best].mark == "▼"


def test_a_method_with_fewer_draws_is_compared_on_those_that_both_have():
    study = study_of(finds(), seeds=8, methods=("naq-plus", "gcn"), shots=(1,))
    column = column_of(study, list(study.groups), (1, "equal"), "accuracy")
    ours, theirs, count = column["naq-plus"].per_task, column["gcn"].per_task, SLOW["gcn"]
    assert (len(ours), len(theirs)) == (8, count)
    _, test = against_best(column)
    assert test.difference.paired
    assert test.difference.mean == pytest.approx((ours[:count] - theirs).mean())
    row = table_of(study.views(), "practice-reached-cora").rows[0]
    assert row[2].value == pytest.approx(100 * ours[:count].mean())
    assert "The first ones alone: GCN, tuned (3)." in table_of(study.views(), "practice-cora").note


def test_the_best_of_the_others_is_none_of_ours():
    means = dict.fromkeys(OTHERS, 0.4) | {"naq-plus": 0.5, "sgc": 0.6}
    study = study_of(found_with(means))
    best, test = against_best(column_of(study, list(study.groups), (1, "equal"), "accuracy"))
    assert best == "sgc" and test.difference.mean < 0
    reached = table_of(study.views(), "practice-reached-cora")
    assert {row[1] for row in reached.rows} == {"SGC"} and {row[-1] for row in reached.rows} == {"no"}
    said = next(view for view in study.views() if isinstance(view, TextView)).sentences
    assert len(said) == 2 * len(SHOTS) and "below by" in said[0] and "significantly worse" in said[0]


def test_one_draw_compares_nothing():
    views = study_of(finds(), seeds=1).views()
    assert not [view for view in views if getattr(view, "name", "") == "practice-reached-cora"]
    numbers = [entry for row in table_of(views, "practice-cora").rows for entry in row if isinstance(entry, Number)]
    assert numbers and not any(entry.mark for entry in numbers)


def test_classes_that_are_left_out_are_told():
    note = table_of(study_of(finds()).views(), "practice-cora").note
    assert "Classes with too few nodes are left out for all methods: 1 with 10 labels, 1 with 20 labels" in note
    assert "left out" not in table_of(study_of(finds()).views(), "practice-random-cora").note, "nobody is, at random"
    assert "left out" not in table_of(study_of(finds(), shots=(1, 2)).views(), "practice-cora").note


def test_a_method_that_is_not_finished_is_missing_and_the_others_are_compared():
    views = study_of(finds(skip=lambda cell: cell.config["peer"] == "sage")).views()
    rows = {row[0]: row for row in table_of(views, "practice-cora").rows}
    assert all(isinstance(entry, Missing) for entry in rows["GraphSAGE, tuned"][2:])
    assert all(entry.mark for entry in rows["GCN, tuned"][2:])


def test_what_the_classifier_promises_is_held_against_the_truth():
    """Every draw is 70 to 72 % right, but for the draw's own difficulty; the interval is 60 to 80 %."""
    study = study_of(finds(), shots=(1,), seeds=6)
    table = table_of(study.views(), "practice-promise-cora")
    true = np.array([one["accuracy"] for record in study.records("naq-plus") for one in record.result["by_shot"][:1]])
    row = [entry.value for entry in table.rows[0][1:]]
    inside = 100 * ((true >= 0.6) & (true <= 0.8)).mean()
    expected = [100 * true.mean(), 70, 100 * np.abs(true - 0.7).mean(), 20, inside, 90, 1.5]
    np.testing.assert_allclose(row, expected)
    assert [row[0] for row in table.rows] == ["1 label", "1 label, random"] and inside > 0


def test_from_graph_to_page(tmp_path):
    """Two draws of a small graph, one class of which is too small for five labels."""
    graph = suite.community_graph(size=14, classes=4)
    labels = graph.labels.copy()
    labels[:4] = 4
    path = save_graph(tmp_path / "small.npz", graph.with_labels(labels))
    out, cache = tmp_path / "out", DatasetCache()
    store = Store(out)
    methods = ("naq-plus", "ssgc", "tfidf-logistic", "pagerank", "sgc")
    with make_runner("local", 1) as runner:
        requests = make_requests(["practice"], cache, given=[str(path)], seeds=2, shots=(1, 5), methods=methods)
        kept = Requests.load(out)
        kept.add(requests, cache.paths)
        store.prepare()
        kept.save(out)
        find = StoredRecords(store, cache)
        outcome = compute([s for r in requests for s in expand(r, find)], find, runner, Setup(cache.paths))
    assert len(outcome.done) == 2 * len(methods) and not outcome.failed
    [section] = [one for one in page_of(out).sections if one.name.startswith("practice")]
    assert not section.missing and not section.failed
    table = table_of(section.views, "practice-small")
    assert all(isinstance(entry, Number) for row in table.rows for entry in row[2:])
    assert "1 with 5 labels" in table.note
    assert any(isinstance(view, LineView) for view in section.views)
    found = {row[0]: row[2].value for row in table.rows}
    assert found["naq (FewShotNodeClassifier)"] > 40
