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
from naq.heads.prototype import PrototypeHead
from naq.io import save_graph
from naq.run import RunConfig, run_config
from naq.run.tasks import evaluation_tasks
from naq.threads import arithmetic


def small(graph, tasks, method="naq-feat/protonet", **given):
    options = {"latent": 16, "lr": 1e-3} if "/" in method else ({"dim": 16} if method == "smooth" else {"latent": 16})
    options |= given.pop("options", {})
    episode = {"queries": 3} if "/" in method else {}
    given = {"way": 2, "episodes": 40, "evaluate_every": 8, "cache": None} | given
    return naq.run(graph, method, tasks=tasks, options=options, episode=episode, **given)


@pytest.mark.parametrize(
    "method", ["naq-feat/protonet", "naq-diff/protonet", "supervised/protonet", "smooth", "untrained"]
)
def test_every_method_runs_the_protocol_and_learns_communities(graph, tasks, method):
    result = small(graph, tasks, method)
    assert result.accuracy > 0.7
    assert result.per_task.shape == (40,)
    assert set(result.evaluations) == suite.HEADS_OF_A_RUN
    assert result.facts["reads_base_labels"] == method.startswith("supervised")
    assert result.data["graph"] == graph.hash
    assert bool(result.baseline) == (method != "smooth")
    assert result.embedding.shape[0] == graph.num_nodes


def test_the_reported_number_is_the_test_accuracy_at_the_first_best_validation(graph, tasks):
    result = small(graph, tasks)
    history = result.history
    best = int(np.argmax(history.valid_accuracy))
    assert result.facts["best_step"] == history.steps[best]
    again = small(graph, tasks, episodes=history.steps[best])
    assert again.history.steps == history.steps[: best + 1] and best < len(history.steps) - 1
    assert np.array_equal(again.per_task, result.per_task)


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
    other = evaluation_tasks(loaded.with_labels(loaded.labels), None, None, way=2, shot=1)
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


def test_a_folder_of_other_settings_is_refused(graph, tasks, tmp_path):
    small(graph, tasks, out=tmp_path / "run")
    with pytest.raises(OptionError, match="another seed; choose another folder"):
        small(graph, tasks, out=tmp_path / "run", seed=1)


def test_a_folder_says_what_was_run_on_what(graph, tasks, tmp_path):
    result = small(graph, tasks, out=tmp_path / "run")
    kept = json.loads((tmp_path / "run" / "config.json").read_text())
    assert RunConfig.from_json(kept["config"]) == result.config and kept["data"] == result.data
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert metrics["config"] == kept["config"] and metrics["data"] == kept["data"]
    assert kept["arithmetic"] == metrics["facts"]["arithmetic"] == arithmetic()


def test_a_folder_of_other_data_is_refused(graph, tasks, tmp_path):
    small(graph, tasks, out=tmp_path / "run")
    with pytest.raises(OptionError, match="another tasks; choose another folder"):
        small(graph, None, split=suite.SPLIT, out=tmp_path / "run")
    hidden = np.where(np.arange(graph.num_nodes) % 2 == 0, np.where(np.isin(graph.labels, suite.SPLIT.base), graph.labels, -1), -1)  # fmt: skip
    with pytest.raises(OptionError, match="another base_labels; choose"):
        small(graph, tasks, base_labels=hidden, out=tmp_path / "run")
    (tmp_path / "run" / "config.json").write_text(json.dumps({"method": "naq-feat/protonet", "seed": 0}))
    with pytest.raises(OptionError, match="holds a run with another"):
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
    with pytest.raises(OptionError, match="which is a file"):
        small(graph, tasks, out=tmp_path / "file")
    with pytest.raises(DataError, match="cannot write"):
        small(graph, tasks, out=tmp_path / "file" / "below")


def test_label_free_learners_are_handed_no_labels(graph, tasks, monkeypatch):
    from naq.learners.protonet import ProtoNet

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


def test_tasks_are_drawn_where_there_is_no_file(graph):
    source = evaluation_tasks(graph, None, None, way=2, shot=1)
    assert len(source.valid) == 50 and len(source.test) == 500
    parts = [set(source.split.part(p)) for p in ("base", "valid", "test")]
    assert not (parts[0] & parts[1] or parts[0] & parts[2] or parts[1] & parts[2])


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ({"method": "naq-feat/protonets"}, OptionError, "did you mean"),
        ({"head": "logistics"}, OptionError, "logistic"),
        ({"device": "cuda:99"}, OptionError, "device is 'cuda:99'"),
        ({"way": 9}, TaskError, "has no 9-way"),
        ({"shot": 2}, TaskError, "2-shot"),
        ({"features": "tf-idf"}, OptionError, "features is 'tf-idf'; expected auto or one of raw"),
        ({"episodes": 0}, OptionError, "count is 0"),
        ({"options": {"lrr": 1.0}}, OptionError, "did you mean lr"),
        ({"options": {"lr": "fast"}}, OptionError, "expected float"),
    ],
)
def test_bad_arguments_are_one_sentence(graph, tasks, given, error, words):
    with pytest.raises(error, match=words):
        small(graph, tasks, **given)


def test_a_graph_without_labels_or_features_says_what_to_do(graph, tasks):
    with pytest.raises(GraphError, match="no labels, which testing needs"):
        small(graph.without_labels(), tasks)
    bare = naq.Graph(graph.adjacency, labels=graph.labels)
    with pytest.raises(GraphError, match=r"no features.*diffusion"):
        small(bare, tasks)


def test_tasks_of_another_graph_are_refused(tasks):
    with pytest.raises(TaskError, match=r"belong to another graph|names? node"):
        small(suite.community_graph(size=12), tasks)


def test_embed_refuses_trained_methods(graph):
    with pytest.raises(OptionError, match="trained on episodes"):
        naq.embed(graph, "naq-feat/protonet")


def test_features_are_weighted_as_asked(graph, tasks):
    plain = small(graph, tasks, "untrained")
    assert plain.config.features == "raw" and plain.data["features"] == "raw", "as in the paper"
    weighted = small(graph, tasks, "untrained", features="auto")
    assert weighted.config.features == "auto" and weighted.data["features"] == "tfidf"
    own = small(graph, tasks, "smooth")
    assert own.config.features is None and own.data["features"] == "raw"
    raw, words = (small(graph, tasks, "untrained", features=kind) for kind in ("raw", "tfidf"))
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
        "tasks": evaluation_tasks(graph, None, tasks, way=2, shot=1).hash,
        "features": "raw",
    }
    installed = {name: version(name) for name in ("torch", "numpy", "scipy", "numba")}
    assert facts["versions"] == {"naq": naq.__version__, "python": platform.python_version(), **installed}
    assert facts["arithmetic"] == arithmetic() and facts["arithmetic"]["torch_threads"] >= 1
    assert facts["arithmetic"]["cpu_capability"]
    again = run_config(RunConfig.from_json(config), graph, tasks=tasks, cache=None)
    assert np.array_equal(again.per_task, kept["evaluations"]["prototype"]["per_task"])
    assert np.array_equal(again.embedding, result.embedding)


def test_dirichlet_queries_are_the_same_for_every_method_and_choose_nothing(graph, tasks):
    source = evaluation_tasks(graph, None, tasks, way=2, shot=1)
    again = evaluation_tasks(graph, None, tasks, way=2, shot=1)
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
