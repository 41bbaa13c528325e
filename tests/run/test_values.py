"""What a run takes and gives as values: tasks, heads, seeds, losses, the model, a frame, a listener."""

import json
import warnings

import numpy as np
import pytest

import methods_under_test as suite
import naq
from naq import listeners
from naq.errors import MissingDependency, NaqError, OptionError, TaskError
from naq.heads.prototype import PrototypeHead
from naq.run.seeds import interval_over_runs
from naq_paper.statistics import difference, score

small = suite.short_run


@pytest.fixture(scope="module")
def own(graph):
    """Test tasks of test classes."""
    return naq.sample_tasks(graph, way=2, shot=2, queries=4, count=30, seed=7, classes=suite.SPLIT.test)


def test_given_tasks_are_the_test_tasks_and_say_way_and_shot(graph, own):
    result = naq.run(graph, "smooth", tasks=own, split=suite.SPLIT, options={"dim": 16})
    assert (result.config.way, result.config.shot, len(result.per_task)) == (2, 2, 30)
    assert np.array_equal(result.per_task, naq.evaluate(result.embedding, own).per_task)
    other = naq.run(graph, "smooth", tasks=own.take(29), split=suite.SPLIT, options={"dim": 16})
    assert other.data["tasks"] != result.data["tasks"]


def test_tasks_that_do_not_fit_are_one_sentence(graph, own):
    def run(tasks, **given):
        return naq.run(graph, "smooth", tasks=tasks, split=suite.SPLIT, **given)

    with pytest.raises(TaskError, match="tasks are 2-way 2-shot, but the run is 3-way 2-shot"):
        run(own, way=3)
    with pytest.raises(TaskError, match=r"test tasks use classes .* not test classes"):
        run(naq.sample_tasks(graph, way=2, shot=1, count=5, classes=suite.SPLIT.base))
    with pytest.raises(TaskError, match="belong to another graph"):
        run(own.relabelled(np.random.default_rng(0).permutation(graph.num_nodes)))
    with pytest.raises(TaskError, match="has nodes 0"):
        run(own.relabelled(np.arange(graph.num_nodes) + 100))


def nearest(embedding, tasks):
    return PrototypeHead().predict(embedding, tasks)


def test_heads_are_names_heads_or_functions(graph, tasks, tmp_path):
    given = {"heads": ["em", nearest, PrototypeHead], "head": nearest, "out": tmp_path / "run"}
    result = small(graph, tasks, **given)
    assert list(result.evaluations) == ["em", "nearest", "prototype", "em/dirichlet", "prototype/dirichlet"]
    assert np.array_equal(result.per_task, result.evaluations["prototype"].per_task)
    assert list(result.baseline) == list(result.evaluations)
    assert result.history.valid_accuracy == small(graph, tasks, head="prototype").history.valid_accuracy
    assert json.loads((tmp_path / "run" / "config.json").read_text())["config"]["heads"]["nearest"] == {}
    again = small(graph, tasks, **given)
    assert again.model is None and again.accuracy == result.accuracy, "it is read, not run again"
    with pytest.raises(OptionError, match="another head"):
        small(graph, tasks, **{**given, "heads": ["em"]})


@pytest.mark.parametrize(
    ("words", "heads"),
    [
        ("no head 'protype'", "protype"),
        ("head is 3", [3]),
        ("heads are .*each with a name of its own", [nearest, nearest]),
        (r"head <lambda> gives shape \(2,\)", lambda embedding, tasks: np.zeros(2, dtype=int)),
        ("type float64", lambda embedding, tasks: np.zeros(tasks.query.shape)),
    ],
)
def test_wrong_heads_are_one_sentence(graph, tasks, words, heads):
    with pytest.raises(OptionError, match=words):
        small(graph, tasks, "smooth", heads=heads)


def test_seeds_are_runs_of_their_own_and_their_mean(graph, tasks, tmp_path):
    result = small(graph, tasks, seeds=3, seed=1, out=tmp_path / "runs")
    alone = [small(graph, tasks, seed=seed) for seed in (1, 2, 3)]
    runs = np.stack([one.per_task for one in alone])
    assert [one.accuracy for one in result.per_seed] == [one.accuracy for one in alone]
    assert result.accuracy == runs.mean() and np.array_equal(result.per_task, runs.mean(axis=0))
    assert result.ci95 == interval_over_runs(runs) and str(result).endswith(", 3 seeds")
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == ["seed1", "seed2", "seed3"]
    frame = result.to_frame()
    mine = frame[(frame.method == "naq-feat/protonet") & (frame["head"] == "logistic")]
    assert mine.seed.tolist() == [1, 2, 3] and mine.accuracy.tolist() == [one.accuracy for one in alone]
    assert set(frame.method) == {"naq-feat/protonet", "smooth"} and (frame.tasks == len(result.per_task)).all()
    for seeds in (0, 2.5, "3"):
        with pytest.raises(OptionError, match="seeds is"):
            small(graph, tasks, seeds=seeds)
    with pytest.raises(OptionError, match="checkpoint is of one training"):
        small(graph, tasks, seeds=2, checkpoint=tmp_path / "c.safetensors")


@pytest.mark.parametrize("shape", [(2, 30), (5, 200), (3, 2), (4, 1)])
def test_the_interval_over_seeds_and_tasks_is_that_of_the_tables(shape):
    random = np.random.default_rng(0)
    for noise in (0.0, 0.01, 1.0):
        runs = 0.5 + noise * random.standard_normal((shape[0], 1)) + random.standard_normal(shape)
        if shape[1] == 1:
            assert interval_over_runs(runs) > 0
            continue
        zero = score(np.zeros((1, shape[1])), "same", trained=False)
        assert interval_over_runs(runs) == pytest.approx(difference(score(runs, "same"), zero).ci95, rel=1e-12)


def test_the_interval_covers_what_it_says():
    random = np.random.default_rng(1)
    seeds, tasks, rest = (random.standard_normal((2000, *shape)) for shape in ((5, 1), (1, 40), (5, 40)))
    runs = 0.3 * seeds + 2 * tasks + rest
    inside = [abs(one.mean()) < interval_over_runs(one) for one in runs]
    assert 0.93 < np.mean(inside) < 0.975


def test_losses_of_every_update_are_kept_if_asked_for_also_over_a_stop(graph, tasks, tmp_path):
    plain, kept = small(graph, tasks), small(graph, tasks, record_losses=True, out=tmp_path / "run")
    assert plain.history.losses == [] and "losses" not in plain.to_json()["history"]
    losses = np.array(kept.history.losses)
    assert len(losses) == 40 and losses.reshape(5, 8).mean(axis=1) == pytest.approx(plain.history.loss, rel=1e-12)
    assert small(graph, tasks, out=tmp_path / "run").history == kept.history

    def stop(phase, facts):
        if phase == "train" and facts["done"] == 19:
            raise NaqError("enough")

    path = tmp_path / "c.safetensors"
    with pytest.raises(NaqError, match="enough"):
        small(graph, tasks, record_losses=True, checkpoint=path, listener=stop)
    assert small(graph, tasks, record_losses=True, checkpoint=path).history.losses == kept.history.losses


def test_the_model_is_the_trained_learner_or_the_embedder(graph, tasks):
    result = small(graph, tasks)
    assert np.array_equal(result.model.encode_all().numpy(), result.embedding)
    assert small(graph, tasks, "smooth").model.name == "smooth"


def test_a_listener_that_fails_is_left_out_with_one_warning(graph, tasks):
    calls = []

    def broken(phase, facts):
        calls.append(phase)
        if phase == "train":
            raise OSError("the disk is full")

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = small(graph, tasks, listener=broken)
    words = [str(one.message) for one in caught if "listener" in str(one.message)]
    assert words == ["listener broken failed (OSError: the disk is full); the run goes on without it."]
    assert calls.count("train") == 1 and "result" not in calls and result.accuracy == small(graph, tasks).accuracy


class Fake:
    """A stand-in for a tracker's module: every call is kept."""

    def __init__(self):
        self.calls = []

    def __getattr__(self, name):
        def call(*given, **named):
            self.calls.append((name, given, named))
            return self

        return call


TRACKERS = {
    "torch.utils.tensorboard": lambda: listeners.TensorBoard("logs"),
    "wandb": lambda: listeners.WandB(project="naq"),
    "mlflow": lambda: listeners.MLflow(run_name="naq"),
}
ENDS = {"torch.utils.tensorboard": "close", "wandb": "finish", "mlflow": "end_run"}


@pytest.mark.parametrize("module", TRACKERS)
def test_trackers_write_configuration_curve_and_test_accuracy(graph, tasks, monkeypatch, module):
    fake = Fake()
    monkeypatch.setitem(__import__("sys").modules, module, fake)
    result = small(graph, tasks, listener=TRACKERS[module]())
    numbers = {}
    for name, given, named in fake.calls:
        if name == "add_scalar":
            numbers.setdefault(given[0], []).append((given[2], given[1]))
        elif name in ("log", "log_metrics"):
            for key, value in given[0].items():
                numbers.setdefault(key, []).append((named["step"], value))
    history = result.history
    assert numbers["valid/accuracy"] == list(zip(history.steps, history.valid_accuracy))
    assert numbers["train/loss"] == list(zip(history.steps, history.loss))
    assert numbers["test/accuracy"] == [(40, result.accuracy)] and numbers["test/ci95"] == [(40, result.ci95)]
    assert numbers["test/accuracy/em"] == [(40, result.evaluations["em"].accuracy)]
    assert "naq-feat/protonet" in str(fake.calls[:2]) and fake.calls[-1][0] == ENDS[module]


def test_a_tracker_ends_a_run_that_was_stopped_before_the_next(monkeypatch):
    fake = Fake()
    monkeypatch.setitem(__import__("sys").modules, "wandb", fake)
    tracker = listeners.WandB()
    for _ in range(2):
        tracker("config", {"config": {"seed": 0}})
    assert [name for name, *_ in fake.calls] == ["init", "finish", "init"]


@pytest.mark.parametrize(("module", "package"), [("wandb", "wandb"), ("mlflow", "mlflow")])
def test_a_tracker_that_is_not_installed_says_how_to(monkeypatch, module, package):
    monkeypatch.setitem(__import__("sys").modules, module, None)
    with pytest.raises(MissingDependency, match=f"pip install {package}"):
        TRACKERS[module]()
