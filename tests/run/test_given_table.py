"""Runs whose episodes are drawn from a table that was made before."""

from __future__ import annotations

import json
import signal
from typing import Any

import numpy as np
import pytest

import methods_under_test as suite
import naq
from graphs import islands
from naq import Graph, NeighborTable, diffusion_neighbors, feature_neighbors
from naq.errors import OptionError, TrainingError
from naq.files import write_npz
from naq.neighbors.table import content_of
from naq.run.episodes import DEFAULTS, check_table, table_for

MAKE = {"naq-feat": feature_neighbors, "naq-diff": diffusion_neighbors}


def small(graph: Graph, tasks: Any, method: str = "naq-diff/protonet", **given: Any) -> Any:
    episode = {"queries": 3} | given.pop("episode", {})
    given = {"way": 2, "episodes": 16, "evaluate_every": 8, "cache": None, "baseline": False} | given
    return naq.run(graph, method, tasks=tasks, options={"latent": 16, "lr": 1e-3}, episode=episode, **given)


def taken(table: NeighborTable, graph: Graph, kind: str, **options: Any) -> tuple[NeighborTable, list[str]]:
    notes: list[str] = []
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


def test_a_run_without_a_table_says_nothing_of_one(graph, tasks, tmp_path):
    small(graph, tasks, out=tmp_path)
    kept = json.loads((tmp_path / "config.json").read_text())
    assert set(kept["data"]) == {"graph", "features", "tasks"} and "table" not in kept["config"]


def test_a_folder_is_of_one_table(graph, tasks, tmp_path):
    table = diffusion_neighbors(graph, 5)
    first = small(graph, tasks, out=tmp_path / "run", table=table)
    again = small(graph, tasks, out=tmp_path / "run", table=table.save(tmp_path / "t.npz"))
    assert again.seconds["train"] == round(first.seconds["train"], 3)  # read, not run
    changed = table.ids.copy()
    changed[0, :2] = changed[0, 1::-1]
    other = NeighborTable(changed, table.scores, table.info)
    for given in ({"table": other}, {"table": table.first(4)}, {}):
        with pytest.raises(OptionError, match="holds a run with another table; choose another folder"):
            small(graph, tasks, out=tmp_path / "run", **given)


def test_a_checkpoint_of_another_table_is_refused(graph, tasks, tmp_path):
    one, file = diffusion_neighbors(graph, 3), tmp_path / "checkpoint.safetensors"
    whole = small(graph, tasks, table=one, episodes=40)

    def stop(phase: str, facts: Any) -> None:
        if phase == "train" and facts["done"] == 24:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        small(graph, tasks, table=one, episodes=40, checkpoint=file, listener=stop)
    two = NeighborTable(np.roll(one.ids, 1, axis=0), one.scores, one.info)
    for given in ({"table": two}, {}):
        with pytest.raises(TrainingError, match="belongs to a run with other settings"):
            small(graph, tasks, episodes=40, checkpoint=file, **given)
    assert np.array_equal(small(graph, tasks, table=one, episodes=40, checkpoint=file).embedding, whole.embedding)


@pytest.mark.parametrize("method", ["smooth", "naq-plus", "supervised/protonet", "g-umtra/protonet", "bgrl"])
def test_methods_without_naq_episodes_take_none(graph, tasks, method):
    with pytest.raises(OptionError, match=f"a neighbour table was given, but {method} draws no episodes from one"):
        naq.run(graph, method, way=2, tasks=tasks, table=feature_neighbors(graph, 10))


@pytest.mark.parametrize(
    ("kind", "make", "options", "message"),
    [
        ("naq-diff", {"of": "naq-feat"}, {}, "is of kind 'feature', but naq-diff draws episodes from one of kind"),
        ("naq-feat", {"of": "naq-diff"}, {}, "is of kind 'diffusion', but naq-feat draws"),
        ("naq-feat", {"metric": "jaccard"}, {}, "made with metric=jaccard, but the episodes are to have metric=cosine"),
        ("naq-diff", {"alpha": 0.2}, {}, r"made with alpha=0.2, but .* alpha=0.1; .*option alpha=0.2"),
        ("naq-diff", {"self_loops": False}, {}, "made with self_loops=False"),
        ("naq-diff", {"fill": "lowest"}, {}, r"filled by 'lowest', but the episodes are to have fill=none"),
        ("naq-diff", {"fill": "lowest"}, {"fill": "random"}, "filled by 'lowest'"),
        ("naq-diff", {"k": 3}, {}, "holds 3 neighbours per node, but the episodes read 4; make it with k=4 or more"),
        ("naq-diff", {}, {"shot": 3}, "holds 5 neighbours per node, but the episodes read 6"),
        ("naq-diff", {}, {"apart": 9}, "the episodes read 9"),
        ("naq-feat", {}, {"fill": "feature"}, "fill is 'feature'; expected one of none, lowest, random"),
    ],
)  # fmt: skip
def test_tables_that_are_not_for_the_episodes(kind, make, options, message):
    table = MAKE[make.pop("of", kind)](islands(), **({"k": 5} | make))
    with pytest.raises(OptionError, match=message):
        taken(table, islands(), kind, **options)


def test_tables_of_other_graphs():
    graph = islands()
    fewer = Graph(np.array([[0, 1], [1, 2]]), nodes=20)
    with pytest.raises(OptionError, match="the table has 20 nodes, but graph 'islands' has 22"):
        taken(diffusion_neighbors(fewer, 5), graph, "naq-diff")
    edges = Graph(graph.adjacency[::-1, ::-1], graph.features, name="turned")
    words = graph.with_features(graph.features[::-1])
    of = {kind: MAKE[kind](graph, 5) for kind in MAKE} | {"filled": diffusion_neighbors(graph, 5, fill="feature")}
    with pytest.raises(OptionError, match="from another graph than 'turned', or before its edges changed"):
        taken(of["naq-diff"], edges, "naq-diff")
    with pytest.raises(OptionError, match="from another graph than 'islands', or before its edges or features changed"):
        taken(of["naq-feat"], words, "naq-feat")
    with pytest.raises(OptionError, match="edges or features changed"):
        taken(of["filled"], words, "naq-diff", fill="feature")
    assert taken(of["naq-diff"], words, "naq-diff")[1] == []  # diffusion reads no features
    assert taken(of["naq-diff"], graph.with_labels([0] * 22), "naq-diff")[1] == []


def test_other_features_are_another_graph(tasks, graph):
    table = feature_neighbors(graph, 5)
    with pytest.raises(OptionError, match="before its edges or features changed"):
        small(graph, tasks, "naq-feat/protonet", table=table, features="binary")


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
    assert taken(NeighborTable(made.ids, made.scores, older), graph, "naq-diff")[1] == [
        "the table does not say its graph: that it fits the graph and the method is not checked"
    ]
    file = write_npz(tmp_path / "other.npz", {"ids": made.ids.astype(np.int64), "scores": made.scores})
    with pytest.warns(UserWarning, match="does not say its kind, alpha, self_loops, its graph: that it fits"):
        found = small(graph, tasks, table=file)
    assert found.data["table"] == {"hash": made.hash, "info": {}}  # whatever type the numbers have
    vectors = naq.neighbors.vector_neighbors(np.asarray(graph.features.todense()), 5)
    assert taken(vectors, graph, "naq-feat")[1][0].startswith("the table does not say its graph")


def test_tables_say_what_they_are_made_from():
    graph = islands()
    assert diffusion_neighbors(graph, 3).info["graph"] == graph.structure_hash
    assert feature_neighbors(graph, 3).info["graph"] == graph.without_labels().hash
    assert diffusion_neighbors(graph, 3, fill="feature").info["graph"] == content_of(graph, reads_features=True)
    labelled = suite.community_graph()
    assert feature_neighbors(labelled, 3).info["graph"] == labelled.without_labels().hash != labelled.hash
