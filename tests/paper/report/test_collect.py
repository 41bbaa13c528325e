"""From a folder of results to its page: what is current, what is apart, what is missing."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest
from typer.testing import CliRunner

import methods_under_test as suite
from naq.cli.main import app
from naq.errors import DataError
from naq.files import sealed
from naq_paper.cells.cell import VERSIONS, Cell, titles
from naq_paper.cells.records import Record
from naq_paper.cells.runners import make_runner
from naq_paper.cells.store import Store
from naq_paper.experiments import experiment as experiments
from naq_paper.experiments.experiment import EXPERIMENTS
from naq_paper.experiments.folder import REQUESTS, Requests
from naq_paper.experiments.request import Request
from naq_paper.experiments.views import Missing, Number, TableView
from naq_paper.report.collect import machine_words, page_of, tables_of
from naq_paper.report.commands import command, section_name
from naq_paper.report.export import write_tables
from naq_paper.report.page import Page
from naq_paper.report.render import render
from naq_paper.report.results import Results
from report_folders import FACTS, MACHINE, cells_of, fill, make_request, nothing, record

GRAPH = suite.community_graph(size=4)


def numbers(page: Page) -> list[Number]:
    return [e for table in tables_of(page) for row in table.rows for e in row if isinstance(e, Number)]


def test_current_results_are_shown_with_their_provenance(tmp_path):
    request = make_request()
    fill(tmp_path, [request])
    page = page_of(tmp_path)
    [section] = page.sections
    cells = cells_of(request)
    assert (page.summary.done, page.summary.failed, page.summary.missing) == (len(cells), 0, 0)
    assert len(section.made) == len(cells) and not section.missing and not section.failed and not page.older
    keys = {cell.key for cell in section.made}
    shown = numbers(page)
    assert len(shown) == 8 and all(set(number.keys) <= keys and number.keys for number in shown)
    assert section.made[0].machine == "Intel Xeon, 2 cores, 1 thread"
    assert "toy" in page.subtitle and page.summary.data[0].split.startswith("8/6/6 classes")
    assert render(page).count("How these numbers were made") == 1


def test_results_of_other_code_are_apart(tmp_path):
    fill(tmp_path, [make_request()], lambda cell: record(cell, 0.9, versions="train 0"))
    page = page_of(tmp_path)
    [section] = page.sections
    assert not section.made and not numbers(page)
    assert page.summary.done == 0 and page.summary.missing == len(section.missing) == 5
    [(label, [older])] = page.older
    assert label == "train 0" and len(older.made) == 5 and not older.missing
    assert any(isinstance(e, Number) for view in older.views if isinstance(view, TableView) for e in view.rows[0])
    assert "train 0" not in render(page).split('id="older"')[0].split("<main")[1]


def test_a_method_of_a_higher_version_is_apart_too_and_takes_no_current_result_with_it(tmp_path, monkeypatch):
    first, *_ = cells = cells_of(make_request())
    store = fill(tmp_path, [make_request()])
    name = str(first.config["method"])
    alike = [cell for cell in cells if cell.config["method"] == name]
    monkeypatch.setitem(VERSIONS, name, 2)
    store.put(record(first))
    page = page_of(tmp_path)
    assert len(page.sections[0].made) == len(cells) - len(alike) + 1
    [(label, [older])] = page.older
    assert label == f"before {name} 2" and older.name.endswith(f"before-{name}-2")
    assert [cell.title for cell in older.made] == [cell.title for cell in alike]


@pytest.mark.parametrize(
    "days", [("2026-01-01", "2026-02-01", "2026-03-01"), ("2026-03-01", "2026-02-01", "2026-01-01")]
)
def test_of_several_older_results_under_one_label_the_latest_is_shown(tmp_path, days, monkeypatch):
    cell = cells_of(make_request())[0]
    store = fill(tmp_path, [make_request()], nothing)
    for number, day in enumerate(days, 1):
        monkeypatch.setitem(VERSIONS, "train", number)
        store.put(record(cell, finished=day))
    monkeypatch.setitem(VERSIONS, "train", 4)
    [(_, [older])] = page_of(tmp_path).older
    assert [made.finished for made in older.made] == ["2026-03-01"]


def test_results_of_other_versions_stand_in_for_missing_ones_where_that_is_asked(tmp_path):
    cells = cells_of(make_request())
    store = fill(tmp_path, [make_request()], nothing)
    for day in ("2026-01-01", "2026-02-01"):
        store.put(record(cells[0], versions="train 0, of " + day, finished=day))
    store.put(record(cells[1], versions="train 0", finished="2026-03-01"))
    store.put(record(cells[1], finished="2026-01-01"))
    apart, together = page_of(tmp_path), page_of(tmp_path, any_version=True)
    assert (apart.summary.done, together.summary.done) == (1, 2) and apart.older and not together.older
    [section] = together.sections
    assert sorted(made.finished for made in section.made) == ["2026-01-01", "2026-02-01"], (
        "the present code's, however old"
    )
    notice, budget = together.notices
    assert notice.startswith("Results of other versions of the code are among those shown: 1 result of ")
    assert apart.notices == [budget]


@pytest.fixture
def expanded(monkeypatch) -> Counter:
    """How often each request was expanded on each dataset."""
    calls: Counter = Counter()

    def counting(groups: Callable) -> Callable:
        def count(self, request: Request, dataset: str):
            calls[section_name(request), dataset] += 1
            return groups(self, request, dataset)

        return count

    for kind, groups in [(kind, kind.groups) for kind in EXPERIMENTS.values()]:
        monkeypatch.setattr(kind, "groups", counting(groups))
    return calls


def test_a_request_is_expanded_once_however_often_its_cells_are_looked_up(tmp_path, expanded):
    two = Request("label-noise", ("toy", "other"), budget="quick", facts={"toy": FACTS, "other": FACTS})
    requests = [
        make_request("methods", methods=("bgrl", "naq-feat/protonet")),
        two,
        make_request("label-scarcity", tune=True),
    ]
    store = fill(tmp_path, requests)
    for cell in cells_of(requests[0])[:2]:
        for versions in ("train 0", "train -1"):
            store.put(record(cell, versions=versions))
    expanded.clear()
    page = page_of(tmp_path)
    assert sorted(label for label, _ in page.older) == ["train -1", "train 0"]
    assert all(section.made for section in page.sections) and page.summary.done
    assert expanded == {(section_name(r), dataset): 1 for r in requests for dataset in r.datasets}


def test_results_of_other_data_are_not_shown(tmp_path):
    fill(tmp_path, [make_request()], lambda cell: record(cell, data="0ther"))
    page = page_of(tmp_path)
    assert not page.sections[0].made and not page.older and page.summary.done == 0


def test_damaged_files_are_set_aside_named_and_missing_until_they_are_computed_anew(tmp_path):
    store = fill(tmp_path, [make_request()])
    bad, other, *_ = sorted((tmp_path / "cells").glob("*.json"))
    bad.write_text("{half")
    other.write_text(json.dumps(json.loads(other.read_text()) | {"config": {"dataset": "else"}}))
    broken = [next(c for c in cells_of(make_request()) if record(c).key == path.stem) for path in (bad, other)]
    page = page_of(tmp_path)
    notice, budget = page.notices
    assert notice.startswith("2 result files are damaged") and bad.name in notice and other.name in notice
    assert sorted(page.sections[0].missing) == sorted(cell.title for cell in broken)
    assert not bad.exists() and len(list((tmp_path / "damaged").iterdir())) == 2
    assert page_of(tmp_path).notices == [notice, budget]
    store.put(record(broken[0]))
    assert page_of(tmp_path).notices[0].startswith("1 result file is damaged and counts as not run")
    store.put(record(broken[1]))
    assert page_of(tmp_path).notices == [budget]


def test_the_first_screen_says_that_a_quick_budget_finds_nothing(tmp_path):
    one, other = make_request(), Request("label-noise", ("toy",), facts={"toy": FACTS})
    fill(tmp_path, [one, other])
    [notice] = page_of(tmp_path).notices
    assert notice.startswith(f"Budget 'quick' ({one.experiment}): ") and "is no finding" in notice
    fill(tmp_path / "other", [other])
    assert page_of(tmp_path / "other").notices == []


def test_failed_and_missing_cells_are_named(tmp_path):
    failing, lacking, *_ = cells_of(make_request())

    def make(cell: Cell) -> Record | None:
        if cell == failing:
            return record(cell, result=None, error="out of [memory]; use fewer nodes.")
        return None if cell == lacking else record(cell)

    fill(tmp_path, [make_request()], make)
    page = page_of(tmp_path)
    [section] = page.sections
    assert section.failed == [f"{failing.title}: out of [memory]; use fewer nodes."]
    assert section.missing == [lacking.title]
    assert (page.summary.failed, page.summary.missing) == (1, 1)
    reasons = [e.reason for table in tables_of(page) for row in table.rows for e in row if isinstance(e, Missing)]
    assert "not run" in reasons and any(reason.startswith("failed: out of") for reason in reasons)


def test_cells_that_several_sections_share_count_once(tmp_path):
    requests = [make_request("label-noise"), make_request("label-scarcity")]
    shared = set(cells_of(requests[0])) & set(cells_of(requests[1]))
    assert shared
    failing = next(iter(shared))
    fill(tmp_path, requests, lambda cell: record(cell, result=None, error="no.") if cell == failing else None)
    page = page_of(tmp_path)
    assert all(len(section.failed) == 1 for section in page.sections)
    assert page.summary.failed == 1
    assert page.summary.missing == len({*cells_of(requests[0]), *cells_of(requests[1])}) - 1


def test_candidates_of_one_title_have_lines_of_their_own_and_are_all_counted(tmp_path):
    request = make_request(tune=True)
    cells = cells_of(request)
    assert len({cell.title for cell in cells}) < len(cells)
    lines = titles(cells)
    assert len(set(lines)) == len(lines) and any("(lr=" in line for line in lines)
    fill(tmp_path, [request], nothing)
    page = page_of(tmp_path)
    assert page.summary.missing == len(page.sections[0].missing) == len(cells)


ROUND_TRIPS = [
    {},
    {"seeds": 2, "episodes": 48, "learners": ("tent", "maml")},
    {"profile": "paper", "episode": {"queries": 3, "self_loops": True, "metric": "jaccard"}},
    {"head": "prototype", "features": "binary", "select": "clusters"},
    {"options": {"protonet": {"latent": 8, "lr": 3e-4}}},
    {"tune": True},
    {"experiment": "methods", "ways": (3, 5), "shots": (1, 3), "methods": ("smooth", "naq-feat/protonet", "bgrl")},
]


@pytest.mark.parametrize("more", ROUND_TRIPS)
def test_the_command_of_a_section_requests_the_same_cells(tmp_path, monkeypatch, more):
    request = make_request(dataset="debian", **more)
    fill(tmp_path / "my results", [request], nothing)
    [section] = page_of(tmp_path / "my results", out=str(tmp_path / "my results")).sections
    words = shlex.split(section.command)
    assert words[0] == "naq" and words[-2:] == ["--out", str(tmp_path / "my results")]
    monkeypatch.setattr("naq_paper.experiments.datasets.facts_of", lambda dataset, dataset_cache: FACTS)
    monkeypatch.setattr("naq_paper.cells.datasets.DatasetCache.graph", lambda self, dataset: GRAPH)
    monkeypatch.setattr(experiments, "StoredRecords", lambda store, dataset_cache: nothing)
    done = CliRunner().invoke(app, [*words[1:], "--plan", "--json"], catch_exceptions=False)
    assert done.exit_code == 0
    made = [Request.from_json(one) for one in json.loads(done.stdout)["requests"]]
    assert [replace(one, facts={}) for one in made] == [replace(request, facts={})]
    assert cells_of(made[0]) == cells_of(request)


def test_one_command_for_requests_that_differ_in_name_only():
    requests = [make_request("label-noise"), make_request("times"), make_request("overlap", seeds=2)]
    assert command(requests).splitlines() == [
        "naq reproduce label-noise times --dataset toy --budget quick",
        "naq reproduce overlap --dataset toy --budget quick --seeds 2",
    ]


def test_a_command_names_the_file_of_a_dataset_that_has_no_name():
    assert "--dataset 'my data/toy.npz'" in command([make_request()], {"toy": "my data/toy.npz"})


def test_requests_that_differ_have_sections_titles_and_tables_of_their_own(tmp_path):
    requests = [
        make_request(),
        make_request(seeds=2),
        make_request(learners=("tent",)),
        replace(make_request(), budget="standard"),
    ]
    requests.append(Request("label-noise", ("toy", "other"), budget="quick", facts={"toy": FACTS, "other": FACTS}))
    assert len({section_name(request) for request in requests}) == len(requests)
    fill(tmp_path, requests)
    page = page_of(tmp_path)
    assert len({section.title for section in page.sections}) == len(requests)
    tables = tables_of(page)
    assert len({table.name for table in tables}) == len(tables) == len(requests) + 1
    write_tables(tables, tmp_path)
    assert (tmp_path / "tables" / "label-noise-toy.csv").exists()


def test_the_same_request_on_newer_data_replaces_the_old_one(tmp_path):
    fill(tmp_path, [make_request()])
    newer = replace(make_request(), facts={"toy": {**FACTS, "hash": "newer"}})
    fill(tmp_path, [newer], nothing)
    page = page_of(tmp_path)
    assert len(page.sections) == 1 and not page.sections[0].made


def test_a_folder_without_requests_is_one_sentence(tmp_path):
    with pytest.raises(DataError, match=r"holds no results of naq reproduce \(no requests.json\)"):
        page_of(tmp_path)


def test_an_experiment_that_this_version_lacks_is_left_out_with_a_sentence(tmp_path):
    fill(tmp_path, [make_request()])
    kept = json.loads((tmp_path / REQUESTS).read_text())
    kept["requests"].append({**kept["requests"][0], "experiment": "of-tomorrow"})
    del kept["checksum"]
    (tmp_path / REQUESTS).write_text(json.dumps(sealed(kept)))
    page = page_of(tmp_path)
    assert len(page.sections) == 1 and "does not know of-tomorrow" in page.notices[0]


def test_records_of_a_real_run_are_found(tmp_path):
    """The identity that a runner files is the one that a report looks for."""
    cells = [Cell("empty", {"number": 1}), Cell("empty", {"error": "made to fail."})]
    store = Store(tmp_path)
    with make_runner("local") as runner:
        outcome = runner.run(cells, store)
    assert len(outcome.done) == len(outcome.failed) == 1
    Requests([make_request()]).save(tmp_path)
    find = Results.read(tmp_path).current(make_request())
    done, failed = map(find, cells)
    assert done is not None and done.result == {"number": 1}
    assert failed is not None and failed.error == "made to fail." and not failed.done


def test_a_machine_in_words():
    assert machine_words(MACHINE) == "Intel Xeon, 2 cores, 1 thread"
    assert machine_words({"device": "cuda:0 (NVIDIA H200)", "cores": 16}) == "NVIDIA H200"
    assert machine_words({"device": "cuda"}) == "cuda"
    assert machine_words({}) == ""


def test_the_cost_adds_up_by_machine(tmp_path):
    cells = cells_of(make_request())
    gpu = {"device": "cuda (NVIDIA H200)"}
    fill(tmp_path, [make_request()], lambda c: record(c, seconds=600.0, machine=gpu if c == cells[0] else MACHINE))
    cost = page_of(tmp_path).summary.cost
    assert cost.short == "50 min"
    assert cost.text.startswith("For 5 cells: 40 min on Intel Xeon; 10 min on NVIDIA H200.")
