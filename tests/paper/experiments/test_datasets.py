"""The datasets of a request: what is given, what is at hand, what is known of them and what they lack."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import methods_under_test as suite
import naq
from naq.errors import DataError, OptionError
from naq.io import save_graph, split_for
from naq_paper.cells.datasets import DatasetCache
from naq_paper.experiments import datasets
from naq_paper.experiments.datasets import (
    STAND_IN,
    choose_datasets,
    dataset_facts,
    experiments_of,
    make_requests,
    unusable,
)
from naq_paper.experiments.experiment import EXPERIMENTS

NOISE = EXPERIMENTS["label-noise"]


def chosen(given=(), folder=None, remarks=None):
    return choose_datasets(NOISE, given, folder, [].append if remarks is None else remarks.append)


def test_names_are_experiments_or_groups():
    tables, analyses = experiments_of("tables"), experiments_of("analyses")
    assert experiments_of("all") == [*tables, *analyses] == list(EXPERIMENTS)
    assert experiments_of("overlap") == ["overlap"] and "methods" in tables and "times" in analyses

    beyond = ["beyond-accuracy", "beyond-ablation", "beyond-refinement", "beyond-inputs", "beyond-robustness"]
    assert experiments_of("beyond") == beyond
    for name, words in (("overlaps", "overlap"), ("table", "tables"), ("xyz", "expected")):
        with pytest.raises(OptionError, match=words):
            experiments_of(name)


def touch(folder, *names):
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / name).touch()
    return folder


def test_datasets_that_are_given_are_names_or_paths(tmp_path):
    folder = touch(tmp_path / "data", "My Graph.npz", "cora_full_structure.npz")
    found = chosen(["Debian", str(folder / "My Graph.npz"), str(folder / "cora_full_structure.npz")])
    assert list(found.items()) == [
        ("debian", ""),
        ("my-graph", str(folder / "My Graph.npz")),
        ("cora-full", str(folder / "cora_full_structure.npz")),
    ]
    assert chosen(["pyg:Planetoid/Cora"]) == {"pyg:Planetoid/Cora": ""}
    assert chosen(["debian", "debian"]) == {"debian": ""}


def test_a_folder_gives_the_papers_datasets_that_it_holds(tmp_path):
    names = (
        "cora_full.npz",
        "cora_full_structure.npz",
        "Amazon_electronics-network.npz",
        "other.npz",
        "dblp.tasks.npz",
    )
    folder = touch(tmp_path / "data", *names)
    found = chosen(folder=folder)
    assert tuple(found) == NOISE.datasets == ("amazon-electronics", "cora-full")
    assert found["cora-full"] == str(folder / "cora_full.npz"), "the whole graph, not its structure alone"
    with pytest.raises(DataError, match="dataset="):
        chosen(folder=touch(tmp_path / "none", "other.npz"))
    with pytest.raises(OptionError, match="data="):
        make_requests(["label-noise"], DatasetCache(), folder=folder / "other.npz")


def test_without_the_papers_data_the_bundled_graph_is_used(monkeypatch):
    rows = [{"name": "debian", "state": "bundled"}, {"name": "cora-full", "state": "to download"}]
    monkeypatch.setattr(datasets, "listing", lambda: rows)
    remarks = []
    assert chosen(remarks=remarks) == {STAND_IN: ""}
    [remark] = remarks
    assert f"{STAND_IN} is used instead" in remark and "cora-full" in remark
    rows[1]["state"] = "on disk"
    remarks.clear()
    assert chosen(remarks=remarks) == {"cora-full": ""} and not remarks


def test_facts_are_json_and_true(wide):
    facts = dataset_facts("wide", DatasetCache({"wide": wide}))
    graph, split = naq.load(wide), split_for(wide, naq.load(wide))
    assert json.loads(json.dumps(facts, allow_nan=False)) == facts
    assert (facts["nodes"], facts["edges"], facts["classes"]) == (graph.num_nodes, graph.num_edges, 20)
    assert facts["features"] == graph.num_features and facts["homophily"] == graph.homophily()
    assert (facts["base"], facts["valid"], facts["test"]) == tuple(
        len(split.part(p)) for p in ("base", "valid", "test")
    )
    assert facts["most_classes"] == min(facts["valid"], facts["test"]) and facts["tasks"] == "wide.tasks.npz"
    assert facts["hash"] == DatasetCache({"wide": wide}).data_hash("wide")


def saved(folder, **graphs):
    """A cache that knows these graphs by name."""
    return DatasetCache({name: str(save_graph(folder / f"{name}.npz", graph)) for name, graph in graphs.items()})


def test_facts_of_poor_graphs(tmp_path):
    bare = naq.Graph(np.array([[0], [1]]), nodes=3)
    lonely = naq.Graph(np.empty((2, 0), dtype=int), np.eye(4, dtype=np.float32), [0, 0, 1, 1], nodes=4)
    dataset_cache = saved(tmp_path, bare=bare, lonely=lonely)
    facts = dataset_facts("bare", dataset_cache)
    assert facts["classes"] == facts["features"] == 0 and facts["tasks"] is None and "most_classes" not in facts
    facts = dataset_facts("lonely", dataset_cache)
    json.dumps(facts, allow_nan=False)
    assert facts["homophily"] is None and "most_classes" not in facts, "too few classes for a split"


def test_an_experiment_says_what_a_dataset_lacks(tmp_path):
    whole = suite.community_graph(size=13)
    bare, plain = naq.Graph(whole.adjacency), naq.Graph(whole.adjacency, labels=whole.labels)
    dataset_cache = saved(tmp_path, whole=whole, bare=bare, plain=plain)

    def why(experiment, dataset, **settings):
        return unusable(experiment, dataset, dataset_cache, {}, settings)

    assert why(NOISE, "whole") == "" and why(EXPERIMENTS["overlap"], "bare") == ""
    assert why(NOISE, "bare") == "label-noise needs labels, which bare does not have"
    assert "needs features" in why(NOISE, "plain")
    table = EXPERIMENTS["methods"]
    assert why(table, "whole") == "methods has no setting that the classes of whole can fill"
    assert why(table, "whole", ways=(2,)) == ""


def test_a_request_has_the_datasets_that_fit_it_with_their_facts_and_the_cache_their_paths(wide, tmp_path):
    bare = str(save_graph(tmp_path / "bare.npz", suite.community_graph(size=8).without_labels()))
    dataset_cache, remarks = DatasetCache(), []
    noise, overlap = make_requests(
        ["label-noise", "overlap", "label-noise"], dataset_cache, given=[wide, bare], remark=remarks.append, seeds=2
    )
    assert (noise.experiment, noise.datasets, noise.seeds) == ("label-noise", ("wide",), 2)
    assert noise.facts == {"wide": dataset_facts("wide", dataset_cache)}
    assert (overlap.experiment, overlap.datasets) == ("overlap", ("wide", "bare"))
    assert dataset_cache.paths == {"wide": wide, "bare": bare}
    assert remarks == ["label-noise needs labels, which bare does not have: it is left out."]
    with pytest.raises(OptionError, match="label-noise"):
        make_requests(["label-noise"], DatasetCache(), given=[bare])


def test_of_many_experiments_one_without_a_dataset_is_left_out_and_the_only_one_is_a_mistake(wide, tmp_path):
    (tmp_path / "cora_full.npz").write_bytes(Path(wide).read_bytes())
    remarks = []
    [request] = make_requests(["label-noise", "ogbn-arxiv"], DatasetCache(), folder=tmp_path, remark=remarks.append)
    assert request.datasets == ("cora-full",) and remarks[0].startswith("ogbn-arxiv is left out: ")
    with pytest.raises(DataError, match="ogbn-arxiv"):
        make_requests(["ogbn-arxiv"], DatasetCache(), folder=tmp_path)
