import json
import platform
import shutil
import signal
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import methods_under_test as suite
import naq
from naq.errors import DataError, GraphError, OptionError, TaskError
from naq.files import write_sealed
from naq.heads import make_head
from naq.heads.prototype import PrototypeHead
from naq.io import save_graph
from naq.learners.protonet import ProtoNet
from naq.run import RunConfig
from naq.run.evaluate import evaluation_tasks, validation_accuracy
from naq.threads import arithmetic

small = suite.short_run


def test_the_reported_number_is_the_test_accuracy_at_the_first_best_validation(graph, tasks):
    result = small(graph, tasks)
    history = result.history
    best = int(np.argmax(history.valid_accuracy))
    assert result.facts["best_step"] == history.steps[best]
    again = small(graph, tasks, episodes=history.steps[best])
    assert again.history.steps == history.steps[: best + 1] and best < len(history.steps) - 1
    assert np.array_equal(again.per_task, result.per_task)


@pytest.mark.parametrize("head", ["logistic", "prototype"])
def test_validation_accuracy_is_that_of_the_vectors_of_all_nodes(graph, tasks, head):
    valid, solver = evaluation_tasks(graph, tasks, way=2, shot=1).valid, make_head(head)
    model = ProtoNet(graph.without_labels(), way=2, latent=8)
    expected = naq.evaluate(model.encode_all().detach(), valid, solver).accuracy
    assert expected > 0.5 and validation_accuracy(model, valid, solver) == pytest.approx(expected)


def test_seeds_change_training_but_not_tasks(graph, tasks):
    one, two = small(graph, tasks, seed=0), small(graph, tasks, seed=1)
    assert one.data["tasks"] == two.data["tasks"]
    assert not np.array_equal(one.embedding, two.embedding)
    assert np.array_equal(one.embedding, small(graph, tasks, seed=0).embedding)


def test_tasks_beside_the_file_of_a_graph_are_found(graph, tasks, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save_graph("mine.npz", graph)
    (tmp_path / "mine.tasks.npz").write_bytes(Path(tasks).read_bytes())
    loaded = naq.load("mine.npz")
    monkeypatch.chdir("/")
    for given in (loaded, loaded.with_features(loaded.features), str(tmp_path / "mine.npz")):
        assert small(given, None, "smooth").data["tasks"] == small(graph, tasks, "smooth").data["tasks"]
    other = evaluation_tasks(loaded.with_labels(loaded.labels), way=2, shot=1)
    assert other.origin == "drawn with seed 0"


def test_a_run_folder_is_complete_and_not_run_twice(graph, tasks, tmp_path):
    out = tmp_path / "run"
    first = small(graph, tasks, out=out)
    names = {p.name for p in out.iterdir()}
    assert names == {"config.json", "metrics.json", "weights.safetensors", "embedding.safetensors", "curve.png"}
    metrics = json.loads((out / "metrics.json").read_text())
    assert metrics["evaluations"]["logistic"]["accuracy"] == first.accuracy
    assert metrics["facts"]["versions"]["torch"]
    assert np.array_equal(load_file(out / "embedding.safetensors")["embedding"].numpy(), first.embedding)
    told = []
    again = small(graph, tasks, out=out, listener=lambda phase, _: told.append(phase))
    assert "finished" in told and "train" not in told
    assert again.accuracy == first.accuracy and np.array_equal(again.per_task, first.per_task)


def test_a_folder_of_other_settings_or_data_is_refused(graph, tasks, tmp_path):
    result = small(graph, tasks, out=tmp_path / "run")
    kept = json.loads((tmp_path / "run" / "config.json").read_text())
    assert RunConfig.from_json(kept["config"]) == result.config and kept["data"] == result.data
    with pytest.raises(OptionError, match="seed"):
        small(graph, tasks, out=tmp_path / "run", seed=1)
    with pytest.raises(OptionError, match="tasks"):
        small(graph, None, split=suite.SPLIT, out=tmp_path / "run")
    shown = np.isin(graph.labels, suite.SPLIT.base) & (np.arange(graph.num_nodes) % 2 == 0)
    hidden = np.where(shown, graph.labels, -1)
    with pytest.raises(OptionError, match="base_labels"):
        small(graph, tasks, base_labels=hidden, out=tmp_path / "run")
    (tmp_path / "run" / "config.json").write_text(json.dumps({"method": "naq-feat/protonet", "seed": 0}))
    with pytest.raises(OptionError, match="another"):
        small(graph, tasks, out=tmp_path / "run")


def stopped(graph, tasks, out):
    def stop(phase, facts):
        if phase == "train" and facts["done"] == 16:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        small(graph, tasks, out=out, listener=stop)


def test_resuming_under_other_arithmetic_warns_and_goes_on(graph, tasks, tmp_path):
    whole, out = small(graph, tasks), tmp_path / "run"
    stopped(graph, tasks, out)
    told = []
    again = small(
        graph, tasks, out=out, listener=lambda phase, facts: told.append(facts) if phase == "warning" else None
    )
    assert told == [] and np.array_equal(again.embedding, whole.embedding)
    shutil.rmtree(out)
    stopped(graph, tasks, out)
    kept = json.loads((out / "config.json").read_text())
    kept["arithmetic"] |= {"torch_threads": 99, "mkl_cbwr": "OTHER"}
    write_sealed(out / "config.json", kept)
    words = rf"torch_threads 99 -> {torch.get_num_threads()}, mkl_cbwr OTHER -> .*the last digits may differ"
    with pytest.warns(UserWarning, match=words):
        again = small(graph, tasks, out=out)
    assert np.array_equal(again.embedding, whole.embedding)
    assert small(graph, tasks, out=out).accuracy == whole.accuracy, "a finished run does not warn"


def test_an_unwritable_folder_is_one_sentence(graph, tasks, tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(OptionError, match="out"):
        small(graph, tasks, out=tmp_path / "file")
    with pytest.raises(DataError, match="out"):
        small(graph, tasks, out=tmp_path / "file" / "below")


def test_label_free_learners_are_handed_no_labels(graph, tasks, monkeypatch):
    handed = []
    original = ProtoNet.__init__

    def spy(self, graph, **given):
        handed.append((graph.labels, given["base_labels"]))
        original(self, graph, **given)

    monkeypatch.setattr(ProtoNet, "__init__", spy)
    small(graph, tasks, "naq-feat/protonet")
    small(graph, tasks, "supervised/protonet")
    assert handed[0] == (None, None)
    base = np.where(np.isin(graph.labels, suite.SPLIT.base), graph.labels, -1)
    assert all(np.array_equal(labels, base) for labels in handed[1])


def test_graphs_and_arguments_that_do_not_fit(graph, tasks):
    bare = naq.Graph(graph.adjacency, labels=graph.labels)
    for other, error, named in (
        (graph.without_labels(), GraphError, "labels"),
        (bare, GraphError, "features"),
        (suite.community_graph(size=12), TaskError, "graph|node"),
    ):
        with pytest.raises(error, match=named):
            small(other, tasks)
    for given, error, named in (
        ({"device": "cuda:99"}, OptionError, "device"),
        ({"way": 9}, TaskError, "way"),
        ({"shot": 2}, TaskError, "shot"),
        ({"episodes": 0}, OptionError, "count"),
    ):
        with pytest.raises(error, match=named):
            small(graph, tasks, **given)
    with pytest.raises(OptionError, match="seed"):
        naq.run(graph, RunConfig.resolve("smooth"), seed=3)


def test_features_are_weighted_as_asked(graph, tasks):
    raw, words = (small(graph, tasks, "untrained", features=kind) for kind in ("raw", "auto"))
    assert (raw.data["features"], words.data["features"]) == ("raw", "tfidf")
    assert not np.array_equal(raw.embedding, words.embedding)


def test_a_result_can_be_traced_and_computed_again(graph, tasks, tmp_path):
    """The file of a run names everything its number depends on, and is enough to get the number again from the data."""
    result = small(graph, tasks, seed=3, head="prototype", out=tmp_path / "run")
    kept = json.loads((tmp_path / "run" / "metrics.json").read_text())
    config, facts = kept["config"], kept["facts"]
    assert (config["method"], config["seed"], config["head"]) == ("naq-feat/protonet", 3, "prototype")
    assert config["head_options"] == dict(PrototypeHead().options) and config["options"]["latent"] == 16
    assert kept["data"] == {
        "graph": graph.hash,
        "tasks": evaluation_tasks(graph, tasks, way=2, shot=1).hash,
        "features": "raw",
    }
    installed = {name: version(name) for name in ("torch", "numpy", "scipy", "numba")}
    assert facts["versions"] == {"naq": naq.__version__, "python": platform.python_version(), **installed}
    assert facts["arithmetic"] == arithmetic() and facts["arithmetic"]["torch_threads"] >= 1
    assert facts["arithmetic"]["cpu_capability"]
    again = naq.run(graph, RunConfig.from_json(config), tasks=tasks, cache=None)
    assert np.array_equal(again.per_task, kept["evaluations"]["prototype"]["per_task"])
    assert np.array_equal(again.embedding, result.embedding)


def test_dirichlet_queries_are_the_same_for_every_method_and_choose_nothing(graph, tasks):
    source = evaluation_tasks(graph, tasks, way=2, shot=1)
    again = evaluation_tasks(graph, tasks, way=2, shot=1)
    assert np.array_equal(source.unbalanced.query, again.unbalanced.query)
    assert np.array_equal(source.unbalanced.support, source.test.support)
    result = small(graph, tasks, "naq-feat/protonet", head="transductive")
    head = PrototypeHead()
    found = result.evaluations["prototype/dirichlet"]
    expected = (head.predict(result.embedding, source.unbalanced) == source.unbalanced.query_slots).mean(axis=1)
    assert np.array_equal(found.per_task, expected)
    assert found.queries == "unbalanced" and result.main.queries == "balanced" and result.config.head == "transductive"
    for kept in (result.evaluations, result.baseline):
        assert {name for name, e in kept.items() if e.queries == "unbalanced"} == {
            f"{name}/dirichlet" for name in ("prototype", "transductive", "em", "balanced")
        }
        assert list(kept)[:5] == ["logistic", "prototype", "transductive", "em", "balanced"]


def test_a_training_that_has_only_a_checkpoint_warns_too(graph, tasks, tmp_path, monkeypatch):
    """As cells of a grid are resumed: under another number of threads, or another CPU path."""
    whole, kept = small(graph, tasks), tmp_path / "checkpoint.safetensors"

    def stop(phase, facts):
        if phase == "train" and facts["done"] >= 16:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        small(graph, tasks, checkpoint=kept, listener=stop)
    assert kept.exists()
    now = arithmetic()
    monkeypatch.setattr(
        import_module("naq.run.run"), "arithmetic", lambda: now | {"torch_threads": 99, "cpu_capability": "OTHER"}
    )
    words = r"resumed under other arithmetic \(torch_threads \d+ -> 99, cpu_capability .* -> OTHER\)"
    with pytest.warns(UserWarning, match=words):
        again = small(graph, tasks, checkpoint=kept)
    assert np.array_equal(again.embedding, whole.embedding)
