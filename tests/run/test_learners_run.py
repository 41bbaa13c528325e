"""Every learner through the whole protocol, from the public call."""

import numpy as np
import pytest

import methods_under_test as suite
import naq
from naq.errors import OptionError, TaskError, TrainingError
from naq.methods import get_method, methods

TRAINED = [name for name, method in methods().items() if method.learner is not None]


def small(graph, tasks, method, **given):
    options = suite.options_for(get_method(method)) | given.pop("options", {})
    episode = ({} if method.startswith("g-umtra") else {"queries": 3}) | given.pop("episode", {})
    given = {"way": 2, "episodes": 24, "evaluate_every": 8, "cache": None} | given
    return naq.run(graph, method, tasks=tasks, options=options, episode=episode, **given)


@pytest.mark.parametrize("method", TRAINED)
def test_every_learner_runs_the_protocol(graph, tasks, method):
    result = small(graph, tasks, method)
    own = get_method(method).solves_tasks
    heads = {"own"} if own else suite.HEADS_OF_A_RUN
    heads |= {"own"} if get_method(method).learner.also_solves else set()
    assert set(result.evaluations) == heads
    assert result.config.head == ("own" if own else "logistic")
    assert result.accuracy > 0.55
    again = naq.Result.from_json(result.to_json())
    assert np.array_equal(again.per_task, result.per_task)


def test_cosmic_is_the_same_training_on_both_kinds_of_naq_episodes(graph, tasks):
    """Which is why experiments compute it once."""
    feat, diff = (small(graph, tasks, f"{kind}/cosmic") for kind in ("naq-feat", "naq-diff"))
    assert np.array_equal(feat.embedding, diff.embedding) and np.array_equal(feat.per_task, diff.per_task)
    reading = {"use_queries": True, "mode": "intended"}
    feat, diff = (small(graph, tasks, f"{kind}/cosmic", options=reading) for kind in ("naq-feat", "naq-diff"))
    assert not np.array_equal(feat.embedding, diff.embedding)


@pytest.mark.parametrize("method", ["naq-feat/protonet", "naq-diff/maml", "supervised/protonet"])
def test_episodes_of_another_way_than_the_tasks(graph, tasks, method):
    result = small(graph, tasks, method, episode={"way": 3})
    assert result.config.way == 2 and result.config.episode["way"] == 3 and result.main.way == 2


def test_a_classifier_for_another_way_is_refused_before_training(graph, tasks):
    with pytest.raises(OptionError, match="episodes of 3 classes do not fit tasks of 2"):
        small(graph, tasks, "naq-feat/glitter", episode={"way": 3})


def test_too_few_base_classes_or_labels(graph, tasks):
    with pytest.raises(TaskError, match="there are 3 base classes; lower way"):
        small(graph, tasks, "supervised/maml", episode={"way": 4})
    few = np.where(np.isin(graph.labels, suite.SPLIT.base) & (np.arange(graph.num_nodes) % 24 > 2), -1, graph.labels)
    with pytest.raises(TaskError, match="labelled nodes, but 1 shots and 3 queries need 4"):
        small(graph.with_labels(few), tasks, "supervised/tent")


def test_a_diverging_learner_stops_with_what_to_try_and_keeps_its_checkpoint(graph, tasks, tmp_path, monkeypatch):
    monkeypatch.setattr("naq.training.loop.CHECKPOINT_SECONDS", 0.0)
    good = small(graph, tasks, "naq-feat/maml", out=tmp_path / "good")
    assert good.accuracy > 0.5
    import torch

    from naq.learners.maml import MAML

    plain = MAML.loss
    monkeypatch.setattr(
        MAML, "loss", lambda self, e, update=0: plain(self, e, update) * (torch.nan if update == 9 else 1.0)
    )
    with pytest.raises(
        TrainingError, match=r"update 9 \(episodes 18 to 19\) is not finite; lower lr .* or inner_lr .*checkpoint"
    ):
        small(graph, tasks, "naq-feat/maml", out=tmp_path / "bad")
    assert (tmp_path / "bad" / "checkpoint.safetensors").exists()
    monkeypatch.setattr(MAML, "loss", plain)
    resumed = small(graph, tasks, "naq-feat/maml", out=tmp_path / "bad")
    assert np.array_equal(resumed.per_task, good.per_task)
