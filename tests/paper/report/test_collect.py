"""From a folder of results to its report: what is current, what is apart, what is missing, damaged or shared."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from checked_experiments import numbers
from fake_records import FACTS, MACHINE, cells_of, fill, make_request, nothing, record
from naq.cli.main import app
from naq.errors import DataError
from naq.files import sealed
from naq.testing import community_graph
from naq_paper.cells.cell import VERSIONS
from naq_paper.experiments import experiment as experiments
from naq_paper.experiments.folder import REQUESTS
from naq_paper.experiments.request import Request
from naq_paper.experiments.views import Missing
from naq_paper.report.collect import report_of, tables_of
from naq_paper.report.commands import reproduce_command_of, section_name
from naq_paper.report.export import write_tables
from naq_paper.report.format import machine_words
from naq_paper.report.render import render

GRAPH = community_graph(size=4)


def state(folder, **more):
    """The report, its first section, and the numbers of cells that are done, failed and missing."""
    report = report_of(folder, **more)
    summary = report.summary
    return report, report.sections[0], (summary.done, summary.failed, summary.missing)


def test_current_results_are_shown_with_their_provenance(tmp_path):
    fill(tmp_path, [make_request()])
    report, section, counts = state(tmp_path)
    cells = cells_of(make_request())
    assert counts == (len(cells), 0, 0) and len(section.made) == len(cells) and not report.older
    keys, shown = {one.key for one in section.made}, numbers(tables_of(report))
    assert len(shown) == 8 and all(number.keys and set(number.keys) <= keys for number in shown)
    assert machine_words(MACHINE) == "Intel Xeon, 2 cores, 1 thread"
    assert machine_words({"device": "cuda:0 (NVIDIA H200)", "cores": 16}) == "NVIDIA H200"
    assert "toy" in report.subtitle and report.summary.data == {"toy": FACTS}


def test_results_of_other_code_are_apart(tmp_path, monkeypatch):
    fill(tmp_path, [make_request()], lambda cell: record(cell, 0.9, versions="train 0"))
    report, section, counts = state(tmp_path)
    assert not section.made and not numbers(tables_of(report)) and counts == (0, 0, 5) == (0, 0, len(section.missing))
    [(label, [older])] = report.older
    assert label == "train 0" and len(older.made) == 5 and not older.missing and numbers(older.views)
    assert "train 0" not in render(report).split('id="older"')[0].split("<main")[1]
    store = fill(tmp_path / "newer", [make_request()])
    first, *_ = cells = cells_of(make_request())
    name = str(first.config["method"])
    monkeypatch.setitem(VERSIONS, name, 2)
    store.put(record(first))
    report, section, _ = state(tmp_path / "newer")
    alike = [cell for cell in cells if cell.config["method"] == name]
    assert len(section.made) == len(cells) - len(alike) + 1, "a new version takes only its own results along"
    [(label, [older])] = report.older
    assert label == f"before {name} 2" and [one.cell for one in older.made] == alike


def test_results_of_other_versions_are_used_for_missing_ones_on_request(tmp_path):
    cells = cells_of(make_request())
    store = fill(tmp_path, [make_request()], nothing)
    for day in ("2026-01-01", "2026-02-01"):
        store.put(record(cells[0], versions="train 0, of " + day, finished=day))
    store.put(record(cells[1], versions="train 0", finished="2026-03-01"))
    store.put(record(cells[1], finished="2026-01-01"))
    apart, together = report_of(tmp_path), report_of(tmp_path, any_version=True)
    assert (apart.summary.done, together.summary.done) == (1, 2) and apart.older and not together.older
    days = sorted(one.finished for one in together.sections[0].made)
    assert days == ["2026-01-01", "2026-02-01"], "the present code's, however old"
    assert len(together.notices) == 2 == len(apart.notices) + 1


def test_results_of_other_data_are_not_shown(tmp_path):
    fill(tmp_path, [make_request()], lambda cell: record(cell, data="0ther"))
    report, section, counts = state(tmp_path)
    assert not section.made and not report.older and counts[0] == 0
    newer = replace(make_request(), facts={"toy": {**FACTS, "hash": "newer"}})
    fill(tmp_path / "same", [make_request()])
    fill(tmp_path / "same", [newer], nothing)
    report, section, _ = state(tmp_path / "same")
    assert len(report.sections) == 1 and not section.made, "the same request on newer data replaces the old one"


def test_damaged_files_are_set_aside_named_and_missing_until_they_are_computed_anew(tmp_path):
    store = fill(tmp_path, [make_request()])
    bad, other, *_ = sorted((tmp_path / "cells").glob("*.json"))
    bad.write_text("{half")
    other.write_text(json.dumps(json.loads(other.read_text()) | {"config": {"dataset": "else"}}))
    broken = [next(c for c in cells_of(make_request()) if record(c).key == path.stem) for path in (bad, other)]
    report, section, _ = state(tmp_path)
    notice, budget = report.notices
    assert bad.name in notice and other.name in notice and "'quick'" in budget
    assert sorted(section.missing) == sorted(cell.title for cell in broken)
    assert not bad.exists() and len(list((tmp_path / "damaged").iterdir())) == 2
    assert report_of(tmp_path).notices == [notice, budget]
    store.put(record(broken[0]))
    assert other.name in report_of(tmp_path).notices[0] and bad.name not in report_of(tmp_path).notices[0]
    store.put(record(broken[1]))
    assert report_of(tmp_path).notices == [budget]


def test_failed_and_missing_cells_are_named_and_shared_ones_count_once(tmp_path):
    failing, lacking, *_ = cells_of(make_request())

    def make(cell):
        if cell == failing:
            return record(cell, result=None, error="out of [memory]; use fewer nodes.")
        return None if cell == lacking else record(cell)

    fill(tmp_path, [make_request()], make)
    report, section, counts = state(tmp_path)
    assert section.failed == [f"{failing.title}: out of [memory]; use fewer nodes."]
    assert section.missing == [lacking.title] and counts[1:] == (1, 1)
    reasons = {e.reason for table in tables_of(report) for row in table.rows for e in row if isinstance(e, Missing)}
    assert reasons == {"not run", "failed: out of [memory]; use fewer nodes."}
    requests = [make_request("label-noise"), make_request("label-scarcity")]
    one, two = (set(cells_of(request)) for request in requests)
    shared = next(iter(one & two))
    fill(tmp_path / "two", requests, lambda cell: record(cell, result=None, error="no.") if cell == shared else None)
    report, _, counts = state(tmp_path / "two")
    assert all(len(section.failed) == 1 for section in report.sections) and counts == (0, 1, len(one | two) - 1)


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
    [section] = report_of(tmp_path / "my results", out=str(tmp_path / "my results")).sections
    words = shlex.split(section.command)
    assert words[0] == "naq" and words[-2:] == ["--out", str(tmp_path / "my results")]
    monkeypatch.setattr("naq_paper.experiments.datasets.dataset_facts", lambda dataset, dataset_cache: FACTS)
    monkeypatch.setattr("naq_paper.cells.datasets.DatasetCache.graph", lambda self, dataset: GRAPH)
    monkeypatch.setattr(experiments, "StoredRecords", lambda store, dataset_cache: nothing)
    done = CliRunner().invoke(app, [*words[1:], "--plan", "--json"], catch_exceptions=False)
    made = [Request.from_json(one) for one in json.loads(done.stdout)["requests"]]
    assert [replace(one, facts={}) for one in made] == [replace(request, facts={})]
    assert cells_of(made[0]) == cells_of(request)


def test_one_command_for_requests_that_differ_in_name_only():
    requests = [make_request("label-noise"), make_request("times"), make_request("overlap", seeds=2)]
    assert reproduce_command_of(requests).splitlines() == [
        "naq reproduce label-noise times --dataset toy --budget quick",
        "naq reproduce overlap --dataset toy --budget quick --seeds 2",
    ]
    assert "--dataset 'my data/toy.npz'" in reproduce_command_of([make_request()], {"toy": "my data/toy.npz"})


def test_requests_that_differ_have_their_own_sections_titles_and_tables(tmp_path):
    requests = [make_request(**more) for more in ({}, {"seeds": 2}, {"learners": ("tent",)})]
    requests.append(replace(make_request(), budget="standard"))
    requests.append(Request("label-noise", ("toy", "other"), budget="quick", facts={"toy": FACTS, "other": FACTS}))
    assert len({section_name(request) for request in requests}) == len(requests)
    fill(tmp_path, requests)
    report = report_of(tmp_path)
    tables = tables_of(report)
    assert len({section.title for section in report.sections}) == len(requests)
    assert len({table.name for table in tables}) == len(tables) == len(requests) + 1
    write_tables(tables, tmp_path)
    assert (tmp_path / "tables" / "label-noise-toy.csv").exists()


def test_folders_without_requests_or_with_unknown_ones(tmp_path):
    with pytest.raises(DataError, match=REQUESTS):
        report_of(tmp_path)
    fill(tmp_path, [make_request()])
    kept = json.loads((tmp_path / REQUESTS).read_text())
    kept["requests"].append({**kept["requests"][0], "experiment": "of-tomorrow"})
    del kept["checksum"]
    (tmp_path / REQUESTS).write_text(json.dumps(sealed(kept)))
    report = report_of(tmp_path)
    assert len(report.sections) == 1 and "of-tomorrow" in report.notices[0]


def test_the_cost_adds_up_by_machine(tmp_path):
    gpu = {**MACHINE, "device": "cuda:0 (NVIDIA H200)"}
    first, *_ = cells_of(make_request())
    fill(tmp_path, [make_request()], lambda cell: record(cell, machine=gpu if cell == first else MACHINE, seconds=60.0))
    cost = report_of(tmp_path).summary.cost
    assert cost.short == "5 min" and "4 min on Intel Xeon; 60 s on NVIDIA H200" in cost.text
