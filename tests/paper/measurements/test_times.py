"""Times: what is inside the clock, what is not, and what is written beside them."""

from __future__ import annotations

import itertools
import statistics

import numpy as np
import pytest
import torch

import methods_under_test as suite
import naq
from naq.io import save_graph
from naq_paper.cells.datasets import DatasetCache
from naq_paper.measurements import Context, perform, times
from naq_paper.measurements.times import times_cell


@pytest.mark.parametrize(("what", "kind"), [("similarity", "naq-feat"), ("similarity", "naq-diff")])
def test_a_table_is_made_anew_every_time_and_never_kept(context, tmp_path, monkeypatch, what, kind):
    name = {"naq-feat": "feature_neighbors", "naq-diff": "diffusion_neighbors"}[kind]
    calls, make = [], getattr(times, name)

    def counted(graph, *given, **options):
        calls.append((id(graph), graph._derived.copy(), options))
        return make(graph, *given, **options)

    monkeypatch.setattr(times, name, counted)
    own = Context(context.dataset_cache, cache=tmp_path)
    result = perform(times_cell("communities", what=what, kind=kind, k=5, repeats=3), own)
    assert len(calls) == 4, "three repeats after a warm-up"
    assert all(not derived and "cache" not in options for _, derived, options in calls)
    assert not list(tmp_path.iterdir())
    assert result["solver"] == (None if kind == "naq-feat" else "exact")
    _check(result, 3)


def _check(result, repeats):
    seconds = result["seconds"]
    assert len(seconds) == repeats and min(seconds) > 0
    assert result["mean"] == pytest.approx(statistics.mean(seconds))
    assert result["sd"] == pytest.approx(statistics.stdev(seconds))
    assert result["min"] == min(seconds)
    assert result["computed_on"] == "cpu" and result["hardware"]["gpu"] is None
    assert result["hardware"]["processor"] and result["hardware"]["cores"] >= 1
    assert result["threads"]["torch"] == torch.get_num_threads()
    assert result["parts"]


DENSE = naq.Graph([[0], [1]], features=np.random.default_rng(0).normal(size=(40, 5)).astype("float32"), nodes=40)
PAIR = naq.Graph([[0], [1]], nodes=2)


@pytest.fixture
def staged(tmp_path):
    """Performs cells on a graph with dense features and on one with sparse ones."""
    paths = {
        "dense": str(save_graph(tmp_path / "dense.npz", DENSE)),
        "sparse": str(save_graph(tmp_path / "sparse.npz", suite.community_graph())),
    }
    context = Context(DatasetCache(paths), cache=None)
    return lambda *given, **options: perform(times_cell(*given, k=5, repeats=3, **options), context)


@pytest.mark.parametrize(("dataset", "given"), [("dense", {}), ("sparse", {"kind": "naq-diff", "solver": "exact"})])
def test_stages_are_told_apart_where_they_are_apart(staged, dataset, given):
    result = staged(dataset, **given)
    assert set(result["stages"]) == {"compute", "selection", "transfer"} and result["why_no_stages"] is None
    assert all(len(seconds) == 3 and min(seconds) > 0 for seconds in result["stages"].values())


@pytest.mark.parametrize(("given", "why"), [
    ({}, "inverted index"), ({"kind": "naq-diff", "solver": "push"}, "push"),
    ({"what": "episodes", "kind": "naq-feat", "count": 10, "way": 2}, "one pass"),
    ({"what": "episodes", "kind": "naq-diff", "count": 10, "way": 2}, "one pass"),
    ({"what": "episodes", "kind": "supervised", "count": 10, "way": 2}, "one pass"),
])  # fmt: skip
def test_what_is_one_pass_is_said_to_be(staged, given, why):
    result = staged("sparse", **given)
    assert result["stages"] is None and why in result["why_no_stages"]
    _check(result, 3)


@pytest.mark.parametrize(("kind", "graph"), [("naq-feat", DENSE), ("naq-diff", PAIR)])
def test_every_moment_of_a_table_belongs_to_one_stage(kind: str, graph: naq.Graph) -> None:
    config = {"kind": kind, "k": 1, "metric": "euclidean", "device": "cpu", "self_loops": True, "alpha": 0.1}
    ticks = itertools.count()
    found = times.stage_seconds(graph, config, lambda: float(next(ticks)))
    assert found == {"compute": 1.0, "selection": 1.0, "transfer": 1.0}, "one block, one component"
    assert next(ticks) == 4, "the clock is read at the start and after every stage"


def test_the_clock_waits_for_the_device(monkeypatch):
    order = []
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: order.append(device))
    seconds, _ = times.timed(lambda: order.append("call"), "cuda:0")
    assert order == ["cuda:0", "call", "cuda:0"] and seconds >= 0
    times.timed(lambda: None, "cpu")
    assert len(order) == 3
