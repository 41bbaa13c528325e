"""Runs whose episodes are drawn from a table that was made before."""

from __future__ import annotations

import signal

import numpy as np
import pytest

import methods_under_test as suite
import naq
from graphs import islands
from naq import Graph, NeighborTable, diffusion_neighbors, feature_neighbors
from naq.errors import OptionError, TrainingError
from naq.files import write_npz
from naq.methods import EPISODE_KINDS
from naq.neighbors.table import content_hash
from naq.run.episodes import DEFAULTS, KINDS, check_table, table_for

MAKE = {"naq-feat": feature_neighbors, "naq-diff": diffusion_neighbors}


def small(graph, tasks, method="naq-diff/protonet", **given):
    episode = {"queries": 3} | given.pop("episode", {})
    given = {"way": 2, "episodes": 16, "evaluate_every": 8, "cache": None, "baseline": False} | given
    return naq.run(graph, method, tasks=tasks, options={"latent": 16, "lr": 1e-3}, episode=episode, **given)


def taken(table, graph, kind, **options):
    notes = []
    chosen = DEFAULTS[kind] | {"queries": 4} | options
    return check_table(table, graph, kind, chosen, notes.append), notes


@pytest.mark.parametrize("kind", MAKE)
def test_a_run_from_a_saved_wider_table_is_the_run_that_makes_its_own(graph, tasks, kind, tmp_path, monkeypatch):
    own = small(graph, tasks, f"{kind}/protonet")
    file = MAKE[kind](graph, 9).save(tmp_path / "t.npz")
    monkeypatch.setattr("naq.run.episodes.table_for", None)
    for table in (NeighborTable.load(file), file, str(file)):
        found = small(graph, tasks, f"{kind}/protonet", table=table)
        assert np.array_equal(found.embedding, own.embedding) and np.array_equal(found.per_task, own.per_task)
        assert found.config == own.config
        assert {name: value for name, value in found.data.items() if name != "table"} == own.data
    assert found.data["table"] == {"hash": NeighborTable.load(file).hash, "info": NeighborTable.load(file).info}


def test_a_folder_is_of_one_table(graph, tasks, tmp_path):
    table = diffusion_neighbors(graph, 5)
    first = small(graph, tasks, out=tmp_path / "run", table=table)
    again = small(graph, tasks, out=tmp_path / "run", table=table.save(tmp_path / "t.npz"))
    assert again.seconds["train"] == round(first.seconds["train"], 3)  # read, not run
    changed = table.ids.copy()
    changed[0, :2] = changed[0, 1::-1]
    other = NeighborTable(changed, table.scores, table.info)
    for given in ({"table": other}, {"table": table.first(4)}, {}):
        with pytest.raises(OptionError, match="table"):
            small(graph, tasks, out=tmp_path / "run", **given)


def test_a_checkpoint_of_another_table_is_refused(graph, tasks, tmp_path):
    one, file = diffusion_neighbors(graph, 3), tmp_path / "checkpoint.safetensors"
    whole = small(graph, tasks, table=one, episodes=40)

    def stop(phase, facts):
        if phase == "train" and facts["done"] == 24:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        small(graph, tasks, table=one, episodes=40, checkpoint=file, listener=stop)
    two = NeighborTable(np.roll(one.ids, 1, axis=0), one.scores, one.info)
    for given in ({"table": two}, {}):
        with pytest.raises(TrainingError, match="checkpoint"):
            small(graph, tasks, episodes=40, checkpoint=file, **given)
    assert np.array_equal(small(graph, tasks, table=one, episodes=40, checkpoint=file).embedding, whole.embedding)


@pytest.mark.parametrize("method", ["smooth", "naq-plus", "supervised/protonet", "g-umtra/protonet", "bgrl"])
def test_methods_without_naq_episodes_take_none(graph, tasks, method):
    with pytest.raises(OptionError, match="table"):
        naq.run(graph, method, way=2, tasks=tasks, table=feature_neighbors(graph, 10))


@pytest.mark.parametrize(
    ("kind", "of", "made", "options", "named"),
    [
        ("naq-diff", "naq-feat", {}, {}, "kind"),
        ("naq-feat", "naq-diff", {}, {}, "kind"),
        ("naq-feat", "naq-feat", {"metric": "jaccard"}, {}, "metric"),
        ("naq-diff", "naq-diff", {"alpha": 0.2}, {}, "alpha"),
        ("naq-diff", "naq-diff", {"self_loops": False}, {}, "self_loops"),
        ("naq-diff", "naq-diff", {"kernel": "heat"}, {}, "kernel"),
        ("naq-diff", "naq-diff", {}, {"kernel": "heat"}, "kernel"),
        ("naq-diff", "naq-diff", {"kernel": "heat", "t": 3.0}, {"kernel": "heat"}, "t=5"),
        ("naq-diff", "naq-diff", {"fill": "lowest"}, {}, "fill"),
        ("naq-diff", "naq-diff", {"fill": "lowest"}, {"fill": "random"}, "fill"),
        ("naq-diff", "naq-diff", {"k": 3}, {}, "k=4"),
        ("naq-diff", "naq-diff", {}, {"shot": 3}, "k=6"),
        ("naq-diff", "naq-diff", {}, {"apart": 9}, "k=9"),
        ("naq-feat", "naq-feat", {}, {"fill": "feature"}, "fill"),
    ],
)
def test_tables_that_are_not_for_the_episodes(kind, of, made, options, named):
    with pytest.raises(OptionError, match=named):
        taken(MAKE[of](islands(), **({"k": 5} | made)), islands(), kind, **options)


def test_tables_of_other_graphs():
    graph = islands()
    fewer = Graph(np.array([[0, 1], [1, 2]]), nodes=20)
    edges = Graph(graph.adjacency[::-1, ::-1], graph.features, name="turned")
    words = graph.with_features(graph.features[::-1])
    of = {kind: MAKE[kind](graph, 5) for kind in MAKE} | {"filled": diffusion_neighbors(graph, 5, fill="feature")}
    for table, other, kind, options, named in (
        (diffusion_neighbors(fewer, 5), graph, "naq-diff", {}, "22"),
        (of["naq-diff"], edges, "naq-diff", {}, "edges"),
        (of["naq-feat"], words, "naq-feat", {}, "features"),
        (of["filled"], words, "naq-diff", {"fill": "feature"}, "features"),
    ):
        with pytest.raises(OptionError, match=named):
            taken(table, other, kind, **options)
    assert taken(of["naq-diff"], words, "naq-diff")[1] == []  # diffusion reads no features
    assert taken(of["naq-diff"], graph.with_labels([0] * 22), "naq-diff")[1] == []


def test_other_features_are_another_graph(tasks, graph):
    with pytest.raises(OptionError, match="features"):
        small(graph, tasks, "naq-feat/protonet", table=feature_neighbors(graph, 5), features="binary")


@pytest.mark.parametrize("kind", MAKE)
@pytest.mark.parametrize("fill", ["none", "lowest", "random", "feature"])
def test_short_rows_are_filled_as_in_a_table_of_the_run(kind, fill):
    if fill == "feature" and kind == "naq-feat":
        pytest.skip("a feature table is not filled by features")
    graph, options = islands(), DEFAULTS[kind] | {"queries": 4, "fill": fill}
    own = table_for(graph, kind, options, None, "cpu", None)
    found, notes = taken(MAKE[kind](graph, 9), graph, kind, fill=fill)
    assert np.array_equal(found.ids[:, :4], own.ids) and notes == []
    already, _ = taken(MAKE[kind](graph, 4, fill=fill), graph, kind, fill=fill)
    assert np.array_equal(already.ids, own.ids)
    assert (own.ids < 0).any() == (fill in ("none", "feature"))


def test_what_a_table_does_not_say_is_a_note(graph, tasks, tmp_path):
    made = diffusion_neighbors(graph, 5)
    older = {name: value for name, value in made.info.items() if name != "graph"}
    (note,) = taken(NeighborTable(made.ids, made.scores, older), graph, "naq-diff")[1]
    assert "its graph" in note
    file = write_npz(tmp_path / "other.npz", {"ids": made.ids.astype(np.int64), "scores": made.scores})
    with pytest.warns(UserWarning, match="its kind, alpha, self_loops, its graph"):
        found = small(graph, tasks, table=file)
    assert found.data["table"] == {"hash": made.hash, "info": {}}  # whatever type the numbers have
    vectors = naq.neighbors.vector_neighbors(np.asarray(graph.features.todense()), 5)
    assert taken(vectors, graph, "naq-feat")[1]


def test_tables_say_what_they_are_made_from():
    graph = islands()
    assert diffusion_neighbors(graph, 3).info["graph"] == graph.structure_hash
    assert feature_neighbors(graph, 3).info["graph"] == graph.without_labels().hash
    assert diffusion_neighbors(graph, 3, fill="feature").info["graph"] == content_hash(graph, reads_features=True)
    labelled = suite.community_graph()
    assert feature_neighbors(labelled, 3).info["graph"] == labelled.without_labels().hash != labelled.hash


def test_a_kind_of_episodes_of_ones_own_reads_the_tables_that_it_names(graph, tasks, monkeypatch):
    """As CONTRIBUTING.md says, but for the branch of ``table_for``; the table of vectors has an option it has not."""
    options = {name: value for name, value in DEFAULTS["naq-feat"].items() if name not in ("metric", "search")}
    monkeypatch.setitem(EPISODE_KINDS, "naq-own", "queries are the nearest nodes by smoothed features")
    monkeypatch.setitem(DEFAULTS, "naq-own", options)
    with pytest.raises(OptionError, match=r"use a method naq-feat/... or naq-diff/..."):
        small(graph, tasks, "naq-own/protonet", table=diffusion_neighbors(graph, 5))
    monkeypatch.setitem(KINDS, "naq-own", ("vectors",))
    table = naq.vector_neighbors(naq.embed(graph, "smooth"), 5)
    with pytest.warns(UserWarning, match="does not say its graph:"):
        found = small(graph, tasks, "naq-own/protonet", table=table)
    assert found.accuracy > 0.55
    with pytest.raises(OptionError, match="kind=diffusion"):
        small(graph, tasks, "naq-own/protonet", table=diffusion_neighbors(graph, 5))
