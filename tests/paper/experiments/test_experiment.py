"""Studies: a request expanded once per dataset, looked up through one object; and an analysis that is added as one file."""

from __future__ import annotations

import inspect
import sys

import pytest

import naq_paper.experiments.analyses
from fake_records import finds, nothing, record_for, train_result
from naq.errors import OptionError
from naq_paper.cells.runners import Setup, make_runner
from naq_paper.cells.store import Store
from naq_paper.experiments.analyses import training_way
from naq_paper.experiments.datasets import experiments_of, make_requests
from naq_paper.experiments.experiment import EXPERIMENTS, Experiment, StoredRecords, Study, cells_of, compute, expand
from naq_paper.experiments.folder import Requests
from naq_paper.experiments.request import Request
from naq_paper.experiments.seed_groups import SeedGroup, seed_group
from naq_paper.experiments.views import Missing, Number, TableView, TextView
from naq_paper.report.collect import page_of

METHOD = "naq-feat/protonet"
REQUEST = Request("methods", ("debian",), seeds=3)


class One(Experiment):
    """An experiment of two groups."""

    name, title, question, origin = "one", "One", "Is it one?", "Table 1"

    def groups(self, request, dataset):
        group = seed_group(request, dataset, METHOD)
        return {"all": group, "first": SeedGroup.of(group.cells(nothing)[0])}

    def views(self, study):
        return [TextView([f"{study.dataset}: {len(study.records('all'))} of {len(study.cells())}."])]


def study_with(find):
    return Study(REQUEST, "debian", One(), One().groups(REQUEST, "debian"), find)


class Asked:
    """A ``find`` that counts how often it is called."""

    def __init__(self, find):
        self.find, self.cells = find, []

    def __call__(self, cell):
        self.cells.append(cell)
        return self.find(cell)


def test_a_request_becomes_one_study_per_dataset_with_one_find():
    find = Asked(nothing)
    request = Request("label-noise", ("debian", "cora"), "quick")
    studies = expand(request, find)
    assert [study.dataset for study in studies] == ["debian", "cora"]
    assert all(study.request is request and study.find is find for study in studies)
    assert all(isinstance(study.experiment, EXPERIMENTS["label-noise"]) for study in studies)
    assert {cell.config["dataset"] for cell in studies[1].cells()} == {"cora"}
    assert not find.cells, "without candidates, cells are known before any record is looked up"
    with pytest.raises(OptionError, match="there is no table or analysis 'label-nose'; did you mean label-noise"):
        expand(Request("label-nose", ("debian",)), nothing)


@pytest.mark.parametrize("name", list(EXPERIMENTS))
@pytest.mark.parametrize("tune", [False, True])
def test_whatever_a_study_shows_it_looks_up_through_its_find_and_expands_nothing_again(name, tune, monkeypatch):
    find = Asked(finds())
    methods = (METHOD, "bgrl") if EXPERIMENTS[name].kind == "table" else ()
    request = Request(name, ("debian",), "quick", methods=methods, tune=tune)
    [study] = expand(request, find)
    monkeypatch.setattr(type(study.experiment), "groups", lambda *given: pytest.fail("expanded again"))
    assert study.views()
    study.experiment.headline(study)
    assert find.cells and set(find.cells) <= set(study.cells())


def test_the_cells_of_a_study_are_there_once():
    study = study_with(nothing)
    assert study.cells() == list(study.groups["all"].cells(nothing)) and len(study.cells()) == 3


def test_the_records_of_a_group_are_its_finished_trainings():
    study = study_with(finds(fail=lambda cell: cell.config["seed"] == 0))
    assert [record.cell.config["seed"] for record in study.records("all")] == [1, 2]
    assert study.score("all").seeds == 2 and study.score("first") is None
    assert study.missing("first").reason == "failed: it rains; wait." and study.result("first") is None
    assert study.views()[0].sentences == ["debian: 2 of 3."]


def test_the_result_of_a_group_of_one_cell():
    study = study_with(finds())
    assert study.result("first") == study.records("first")[0].result == study.records("all")[0].result
    assert study.keys("first") == (study.records("all")[0].key,)
    assert study_with(nothing).result("first") is None and study_with(nothing).keys("first") == ()


def test_a_score_is_of_the_shot_and_the_head_that_are_named():
    groups = {k: seed_group(REQUEST, "debian", METHOD, shot=k, seeds=[0]) for k in (1, 5)}
    study = Study(REQUEST, "debian", One(), groups, lambda cell: record_for(cell, train_result(cell)))
    assert study.score(1).tasks != study.score(5).tasks == study.score(5, 5).tasks
    assert study.score(1, head="prototype").mean < study.score(1).mean < study.score(5).mean
    assert study.score(1, 5) is None


def test_what_is_missing_says_why():
    assert study_with(nothing).missing("all") == Missing("not run")
    assert study_with(nothing).missing("all", "OOM", 0.5) == Missing("not run", "OOM", 0.5)
    third = finds(skip=lambda cell: cell.config["seed"] < 2, fail=lambda cell: True)
    assert study_with(third).score("all") is None
    assert study_with(third).missing("all").reason == "failed: it rains; wait."


def test_a_group_that_waits_for_its_setting_is_not_run():
    tuned = Request("methods", ("debian",), tune=True)
    study = Study(tuned, "debian", One(), {"x": seed_group(tuned, "debian", METHOD)}, nothing)
    assert len(study.cells()) == 3 and study.missing("x") == Missing("not run")
    assert study.score("x") is None and study.result("x") is None


NEWCOMER = "training-way-again"


@pytest.fixture
def newcomer(tmp_path, monkeypatch):
    """An analysis added as CONTRIBUTING says: a copy of ``training_way.py`` with another name, and a line in the table."""
    source = inspect.getsource(training_way)
    for old, new in (
        ("class TrainingWay(", "class TrainingWayAgain("),
        ('name = "training-way"', f'name = "{NEWCOMER}"'),
        ('title = "5-way against 20-way training"', 'title = "A new analysis"'),
        ("LEVELS = (5, 10, 20)", "LEVELS = (5, 6)"),
    ):
        assert source.count(old) == 1
        source = source.replace(old, new)
    (tmp_path / "training_way_again.py").write_text(source, encoding="utf-8")
    package = naq_paper.experiments.analyses
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path)])
    assert NEWCOMER not in EXPERIMENTS
    monkeypatch.setitem(EXPERIMENTS._paths, NEWCOMER, f"{package.__name__}.training_way_again:TrainingWayAgain")
    yield NEWCOMER
    EXPERIMENTS._items.pop(NEWCOMER)
    sys.modules.pop(f"{package.__name__}.training_way_again")
    delattr(package, "training_way_again")


def test_an_analysis_added_as_one_file_is_found_planned_computed_and_shown(newcomer, wide, tmp_path):
    assert newcomer in experiments_of("analyses") and list(EXPERIMENTS)[-1] == newcomer
    with make_runner("local") as runner:
        dataset_cache = runner.dataset_cache(Setup())
        settings = {"budget": "quick", "episodes": 4, "options": {"protonet": {"latent": 8}}}
        requests = make_requests([newcomer], dataset_cache, given=[wide], **settings)
        store, setup = Store(tmp_path / "results"), Setup(dataset_cache.paths, None)
        find = StoredRecords(store, dataset_cache)
        studies = [study for request in requests for study in expand(request, find)]
        planned = cells_of(studies)
        assert [{level for _, level in study.groups} for study in studies] == [{5, 6}]
        outcome = compute(studies, find, runner, setup)
    assert outcome.complete and set(outcome.done) == set(planned) and len(planned) == 3 * 2 + 1
    Requests(requests, dict(dataset_cache.paths)).save(store.folder)
    page = page_of(store.folder)
    [section] = page.sections
    assert section.title == "A new analysis" and len(section.made) == len(planned) and not section.missing
    [table] = [view for view in section.views if isinstance(view, TableView)]
    assert table.name == f"{newcomer}-wide" and list(table.columns[1:]) == ["5", "6"]
    assert all(isinstance(entry, Number) for row in table.rows for entry in row[1:]) and len(table.rows) == 4
    assert page.summary.done == len(planned) and "A new analysis" in page.summary.note
