"""Every learner through the whole protocol, from the public call."""

import numpy as np
import pytest

import methods_under_test as suite
import naq
from naq.errors import OptionError, TaskError, TrainingError
from naq.protocol.methods import get_method, methods

TRAINED = [name for name in methods() if "/" in name]


def small(graph, tasks, method, **given):
    options = suite.options_for(get_method(method)) | given.pop("options", {})
    episode = ({} if method.startswith("g-umtra") else {"queries": 3}) | given.pop("episode", {})
    given = {"way": 2, "episodes": 24, "evaluate_every": 8, "cache": None} | given
    return naq.run(graph, method, tasks=tasks, options=options, episode=episode, **given)


@pytest.mark.parametrize("method", TRAINED)
def test_every_learner_runs_the_protocol(graph, tasks, method):
    result = small(graph, tasks, method, also_shots=(3,))
    own = get_method(method).solves_tasks
    heads = {"own"} if own else {"logistic", "prototype", "transductive"}
    heads |= {"own"} if get_method(method).learner.also_solves else set()
    assert set(result.evaluations) == set(result.also["3"]) == heads
    assert result.config.head == ("own" if own else "logistic")
    assert result.also["3"][result.config.head].shot == 3 and set(result.also_baseline) == {"3"}
    assert result.accuracy > 0.55 and result.also["3"][result.config.head].accuracy > 0.55
    again = naq.Result.from_json(result.to_json())
    assert np.array_equal(again.also["3"][result.config.head].per_task, result.also["3"][result.config.head].per_task)


def test_other_shots_do_not_move_the_main_result(graph, tasks):
    alone = small(graph, tasks, "naq-feat/protonet")
    both = small(graph, tasks, "naq-feat/protonet", also_shots=(1, 3))
    assert np.array_equal(alone.per_task, both.per_task) and set(both.also) == {"3"} and not alone.also
    direct = naq.evaluate(both.embedding, naq.Tasks.load(tasks, way=2, shot=3, part="test"), "logistic")
    assert np.array_equal(both.also["3"]["logistic"].per_task, direct.per_task)


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
