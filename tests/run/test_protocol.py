"""Every method that is trained through the whole protocol, from the public call."""

import signal

import numpy as np
import pytest
import torch

import methods_under_test as suite
import naq
from naq.errors import GraphError, OptionError, TaskError, TrainingError
from naq.learners.maml import MAML
from naq.methods import get_method, methods
from naq_paper.rivals.bgrl import BGRL

IN_EPOCHS = [name for name, method in methods().items() if method.in_epochs]


def small(graph, tasks, method, **given):
    known = get_method(method)
    options = suite.options_for(known) | given.pop("options", {})
    episode = {} if known.episodes in (None, "g-umtra") else {"queries": 3}
    usual = {"episodes": 24, "evaluate_every": 8} if known.learner else {"evaluate_every": 4} if known.trains else {}
    episode |= given.pop("episode", {})
    return naq.run(
        graph, method, way=2, tasks=tasks, options=options, episode=episode, **{"cache": None} | usual | given
    )


@pytest.mark.parametrize("method", methods())
def test_every_method_runs_the_protocol(graph, tasks, method):
    result, known = small(graph, tasks, method), get_method(method)
    model = known.model
    heads = set(suite.HEADS_OF_A_RUN) if not model.solves_tasks or getattr(model, "also_heads", False) else set()
    heads |= {"own"} if model.solves_tasks or getattr(model, "also_solves", False) else set()
    assert set(result.evaluations) == heads and result.per_task.shape == (40,)
    assert result.accuracy > (0.55 if known.trains else 0.7)
    assert result.config.head == ("own" if model.solves_tasks else "logistic")
    assert result.data["graph"] == graph.hash and len(result.embedding) == graph.num_nodes
    assert result.facts["reads_base_labels"] == method.startswith("supervised")
    assert bool(result.baseline) == (method != "smooth")
    if known.in_epochs:
        assert result.history.steps[0] == 4 and result.facts["unit"] == "epochs"
        assert result.facts["training"] == "whole graph"
    again = naq.Result.from_json(result.to_json())
    assert np.array_equal(again.per_task, result.per_task) and set(again.evaluations) == heads


def test_tasks_of_a_file_without_validation_tasks(graph, tasks, tmp_path):
    with np.load(tasks) as arrays:
        np.savez(tmp_path / "t.npz", **{name: value for name, value in arrays.items() if "_test_" in name})
    assert small(graph, tmp_path / "t.npz", "smooth").accuracy == small(graph, tasks, "smooth").accuracy
    with pytest.raises(OptionError, match="select"):
        small(graph, tmp_path / "t.npz", "naq-feat/protonet")
    result = small(graph, tmp_path / "t.npz", "naq-feat/protonet", select="clusters")
    assert result.accuracy > 0.55 and result.facts["classes"]["valid"] == []


@pytest.mark.parametrize("method", IN_EPOCHS)
def test_every_embedder_trains_by_batches(graph, tasks, method):
    result = small(graph, tasks, method, options={"batch": 60}, epochs=4)
    assert result.facts["training"] == "batches of 60" and result.facts["steps_trained"] == 4
    assert result.accuracy > 0.55


@pytest.mark.parametrize("method", IN_EPOCHS)
def test_a_stopped_run_goes_on_to_the_same_result(graph, tasks, method, tmp_path):
    def stop(phase, facts):
        if phase == "train" and facts["done"] == 6:
            signal.raise_signal(signal.SIGINT)

    whole = small(graph, tasks, method)
    with pytest.raises(KeyboardInterrupt):
        small(graph, tasks, method, out=tmp_path, listener=stop)
    resumed = small(graph, tasks, method, out=tmp_path)
    assert np.array_equal(whole.embedding, resumed.embedding) and np.array_equal(whole.per_task, resumed.per_task)


@pytest.mark.parametrize(("method", "kind", "named"), [("bgrl", BGRL, "lr"), ("naq-feat/maml", MAML, "inner_lr")])
def test_a_loss_that_is_not_finite_keeps_the_checkpoint(graph, tasks, tmp_path, monkeypatch, method, kind, named):
    monkeypatch.setattr("naq.training.loop.CHECKPOINT_SECONDS", 0.0)
    good, loss = small(graph, tasks, method), kind.loss
    with monkeypatch.context() as patch:
        patch.setattr(
            kind, "loss", lambda self, seen, update=0: loss(self, seen, update) * (torch.nan if update == 9 else 1)
        )
        with pytest.raises(TrainingError, match=f"update 9.*{named}.*checkpoint"):
            small(graph, tasks, method, out=tmp_path)
    assert (tmp_path / "checkpoint.safetensors").exists()
    assert np.array_equal(small(graph, tasks, method, out=tmp_path).per_task, good.per_task)


def test_a_run_that_never_began_leaves_no_folder(graph, tasks, tmp_path):
    bare = naq.Graph(graph.adjacency, None, graph.labels)
    for error, other, options in ((OptionError, graph, {"batch": 999}), (GraphError, bare, {})):
        with pytest.raises(error):
            small(other, tasks, "bgrl", options=options, out=tmp_path / "run")
        assert not (tmp_path / "run").exists()


def test_epochs_and_schedules(graph, tasks):
    result = small(graph, tasks, "bgrl", epochs=0)
    assert result.history is None and result.facts["selection"] == "nothing was selected"
    assert np.array_equal(result.embedding, naq.embed(graph, "bgrl", hidden=16, latent=16, epochs=0))
    result = small(graph, tasks, "bgrl", evaluate_every=None, epochs=2)
    assert (result.config.evaluate_every, result.config.patience) == (BGRL.evaluate_every, BGRL.patience)
    result = small(graph, tasks, "naq-feat/protonet", evaluate_every=None, episodes=4)
    assert (result.config.evaluate_every, result.config.patience) == (160, 0)


@pytest.mark.parametrize("method", ["bgrl", "naq-feat/protonet"])
def test_selection_without_labels_reads_none(graph, tasks, method):
    """Other labels for validation classes move nothing that was selected without labels."""
    free = small(graph, tasks, method, select="clusters")
    swapped = graph.labels.copy()
    swapped[graph.labels == 3], swapped[graph.labels == 4] = 4, 3
    other = small(graph.with_labels(swapped), tasks, method, select="clusters")
    assert "label-free" in free.facts["selection"] and np.array_equal(free.embedding, other.embedding)
    assert free.history.valid_accuracy == other.history.valid_accuracy


def test_embed_trains_without_labels(graph):
    options = {"hidden": 16, "latent": 8, "epochs": 21}
    z, again = (naq.embed(graph, "bgrl", **options) for _ in range(2))
    assert z.shape == (graph.num_nodes, 8) and np.array_equal(z, again)
    assert not np.array_equal(z, naq.embed(graph, "bgrl", **options | {"epochs": 0}))
    with pytest.raises(OptionError, match="run"):
        naq.embed(graph, "naq-feat/protonet")


def test_cosmic_is_the_same_training_on_both_kinds_of_naq_episodes(graph, tasks):
    """Which is why experiments compute it once."""
    for options, same in (({}, True), ({"use_queries": True, "mode": "intended"}, False)):
        feat, diff = (small(graph, tasks, f"{kind}/cosmic", options=options) for kind in ("naq-feat", "naq-diff"))
        assert np.array_equal(feat.embedding, diff.embedding) == same


@pytest.mark.parametrize("method", ["naq-feat/protonet", "naq-diff/maml", "supervised/protonet"])
def test_episodes_of_another_way_than_the_tasks(graph, tasks, method):
    result = small(graph, tasks, method, episode={"way": 3})
    assert result.config.way == 2 and result.config.episode["way"] == 3 and result.main.way == 2


def test_what_tasks_and_labels_do_not_allow(graph, tasks):
    base = np.isin(graph.labels, suite.SPLIT.base)
    few = graph.with_labels(np.where(base & (np.arange(graph.num_nodes) % 24 > 2), -1, graph.labels))
    for error, method, way, other in (
        (OptionError, "naq-feat/glitter", 3, graph),
        (TaskError, "supervised/maml", 4, graph),
        (TaskError, "supervised/tent", 2, few),
    ):
        with pytest.raises(error, match=r"way|quer"):
            small(other, tasks, method, episode={"way": way})
