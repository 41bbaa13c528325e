"""Every trained embedder through the whole protocol, from the public call."""

import numpy as np
import pytest
import torch

import methods_under_test as suite
import naq
from naq.embedders import EMBEDDERS
from naq.errors import GraphError, NaqError, OptionError, TrainingError
from naq.methods import get_method
from naq_paper.rivals.bgrl import BGRL
from naq_paper.rivals.trained import TrainedEmbedder

TRAINED = [name for name, kind in EMBEDDERS.items() if issubclass(kind, TrainedEmbedder)]


def small(graph, tasks, method, **given):
    options = suite.options_for(get_method(method)) | given.pop("options", {})
    given = {"way": 2, "evaluate_every": 4, "cache": None} | given
    return naq.run(graph, method, tasks=tasks, options=options, **given)


@pytest.mark.parametrize("method", TRAINED)
def test_every_embedder_runs_the_protocol(graph, tasks, method):
    result = small(graph, tasks, method)
    kind = EMBEDDERS[method]
    heads = suite.HEADS_OF_A_RUN if not kind.solves_tasks or kind.also_heads else set()
    heads |= {"own"} if kind.solves_tasks or kind.also_solves else set()
    assert set(result.evaluations) == heads
    assert result.config.head == ("own" if kind.solves_tasks else "logistic")
    assert result.history.steps[0] == 4 and result.facts["unit"] == "epochs"
    assert result.facts["training"] == "whole graph" and not result.facts["reads_base_labels"]
    assert result.accuracy > 0.6
    assert set(result.evaluations) == set(naq.Result.from_json(result.to_json()).evaluations)


@pytest.mark.parametrize("method", TRAINED)
def test_every_embedder_trains_by_batches(graph, tasks, method):
    result = small(graph, tasks, method, options={"batch": 60}, epochs=4)
    assert result.facts["training"] == "batches of 60" and result.facts["steps_trained"] == 4
    assert result.accuracy > 0.55


@pytest.mark.parametrize("method", TRAINED)
def test_a_stopped_run_goes_on_to_the_same_result(graph, tasks, method, tmp_path):
    import signal

    def stop(phase, facts):
        if phase == "train" and facts["done"] == 6:
            signal.raise_signal(signal.SIGINT)

    whole = small(graph, tasks, method, out=tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        small(graph, tasks, method, out=tmp_path / "stopped", listener=stop)
    resumed = small(graph, tasks, method, out=tmp_path / "stopped")
    assert np.array_equal(whole.embedding, resumed.embedding) and np.array_equal(whole.per_task, resumed.per_task)


def test_a_diverging_embedder_says_so_and_keeps_its_checkpoint(graph, tasks, tmp_path, monkeypatch):
    monkeypatch.setattr("naq.training.loop.CHECKPOINT_SECONDS", 0.0)
    good = small(graph, tasks, "bgrl", out=tmp_path / "good")
    plain = BGRL.loss
    monkeypatch.setattr(
        BGRL, "loss", lambda self, p, update: plain(self, p, update) * (torch.nan if update == 9 else 1)
    )
    with pytest.raises(TrainingError, match=r"update 9 \(epoch 9\) is not finite; lower lr .*checkpoint"):
        small(graph, tasks, "bgrl", out=tmp_path / "bad")
    assert (tmp_path / "bad" / "checkpoint.safetensors").exists()
    monkeypatch.setattr(BGRL, "loss", plain)
    assert np.array_equal(small(graph, tasks, "bgrl", out=tmp_path / "bad").per_task, good.per_task)


def test_a_run_that_never_began_leaves_no_folder(graph, tasks, tmp_path):
    with pytest.raises(OptionError, match="batch of bgrl is 999"):
        small(graph, tasks, "bgrl", options={"batch": 999}, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
    bare = naq.Graph(graph.adjacency, None, graph.labels)
    with pytest.raises(GraphError, match="has no features"):
        small(bare, tasks, "bgrl", out=tmp_path / "run", features="raw")
    assert not (tmp_path / "run").exists()


def test_no_epochs_is_the_untrained_encoder(graph, tasks):
    result = small(graph, tasks, "bgrl", epochs=0)
    assert result.history is None and result.facts["selection"] == "nothing was selected"
    assert np.array_equal(result.embedding, naq.embed(graph, "bgrl", hidden=16, latent=16, epochs=0))  # fmt: skip


def test_schedule_defaults_and_zero_patience(graph, tasks):
    result = small(graph, tasks, "bgrl", evaluate_every=None, epochs=2)
    assert result.config.evaluate_every == BGRL.evaluate_every and result.config.patience == BGRL.patience
    assert small(graph, tasks, "bgrl", patience=0).config.patience == 0
    learner = naq.run(graph, "naq-feat/protonet", way=2, tasks=tasks, episodes=4, cache=None, options={"latent": 8}, episode={"queries": 3})  # fmt: skip
    assert learner.config.evaluate_every == 160 and learner.config.patience == 0


def test_epochs_belong_to_embedders_that_are_trained(graph, tasks):
    with pytest.raises(OptionError, match="epochs is 3, but naq-feat/protonet is trained on episodes: give episodes"):
        naq.run(graph, "naq-feat/protonet", way=2, tasks=tasks, epochs=3)
    with pytest.raises(OptionError, match="epochs is 3, but smooth is not trained: leave it out"):
        naq.run(graph, "smooth", way=2, tasks=tasks, epochs=3)


@pytest.mark.parametrize("method", ["bgrl", "naq-feat/protonet"])
def test_selection_without_labels_reads_none(graph, tasks, method):
    given = {"options": suite.options_for(get_method(method)), "evaluate_every": 4, "episodes": 12, "cache": None}
    given["episode"] = {} if method == "bgrl" else {"queries": 3}
    free = naq.run(graph, method, way=2, tasks=tasks, select="clusters", **given)
    assert "label-free" in free.facts["selection"] and free.config.select == "clusters"
    # Other labels for validation classes, hence other validation tasks, move nothing that was selected without labels.
    swapped = graph.labels.copy()
    swapped[graph.labels == 3], swapped[graph.labels == 4] = 4, 3
    other = naq.run(graph.with_labels(swapped), method, way=2, tasks=tasks, select="clusters", **given)
    assert np.array_equal(free.embedding, other.embedding)
    assert free.history.valid_accuracy == other.history.valid_accuracy


def test_unknown_selection(graph, tasks):
    with pytest.raises(OptionError, match="select is 'label'; expected one of clusters, valid"):
        naq.run(graph, "bgrl", way=2, tasks=tasks, select="label")


def test_embed_trains_without_labels(graph):
    options = {"hidden": 16, "latent": 8, "epochs": 21}
    z, again = (naq.embed(graph, "bgrl", **options) for _ in range(2))
    assert z.shape == (graph.num_nodes, 8) and np.array_equal(z, again)
    assert not np.array_equal(z, naq.embed(graph, "bgrl", **options | {"epochs": 0}))


def test_the_name_of_a_learner_alone_is_the_learner_as_published(graph, tasks):
    assert get_method("protonet").name == "supervised/protonet"
    result = naq.run(graph, "protonet", way=2, tasks=tasks, episodes=4, options={"latent": 8}, episode={"queries": 3})
    assert result.config.method == "supervised/protonet" and result.facts["reads_base_labels"]
    with pytest.raises(NaqError, match="there is no method 'proto'"):
        get_method("proto")
