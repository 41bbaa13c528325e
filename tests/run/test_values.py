"""What a run takes and gives as values: tasks, heads, seeds, losses, the model, a frame, a listener."""

import json
import subprocess
import sys
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
    of_base = naq.sample_tasks(graph, way=2, shot=1, count=5, classes=suite.SPLIT.base)
    for method in ("naq-feat/protonet", "supervised/protonet"):
        with pytest.raises(TaskError, match=r"test tasks use classes .* not test classes; draw .*classes=\["):
            small(graph, of_base, method, split=suite.SPLIT)
    with pytest.raises(TaskError, match="belong to another graph"):
        run(own.relabelled(np.random.default_rng(0).permutation(graph.num_nodes)))
    with pytest.raises(TaskError, match="has nodes 0"):
        run(own.relabelled(np.arange(graph.num_nodes) + 100))


def test_tasks_of_any_class_where_no_label_is_read_and_nothing_selected(graph):
    """The lines of README; the dataset's own split has other test classes."""
    anything = naq.sample_tasks(graph, way=3, shot=1, queries=4, count=40, seed=0)
    given = {"split": suite.SPLIT, "way": 3, "cache": None}
    result = naq.run(graph, "smooth", tasks=anything, options={"dim": 16}, **given)
    assert np.array_equal(result.per_task, naq.evaluate(result.embedding, anything).per_task)
    parts = result.facts["classes"]
    assert set(graph.labels[anything.nodes()]) <= set(parts["test"]) and not set(parts["test"]) & set(parts["base"])
    given |= {"episodes": 8, "evaluate_every": 8, "options": {"latent": 8}, "episode": {"queries": 3}}
    assert naq.run(graph, "naq-feat/protonet", tasks=anything, select="clusters", **given).accuracy > 0.3
    with pytest.raises(TaskError, match="not test classes"):
        naq.run(graph, "supervised/protonet", tasks=anything, select="clusters", **given)


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


def test_the_first_of_heads_is_the_main_one_unless_another_is_named(graph, tasks, tmp_path):
    result = small(graph, tasks, heads=[nearest, "em"])
    assert result.config.head == "nearest" and result.accuracy == result.evaluations["nearest"].accuracy
    assert result.history.valid_accuracy == small(graph, tasks, head="prototype").history.valid_accuracy
    named = small(graph, tasks, heads=[nearest, "em"], head="logistic")
    assert named.config.head == "logistic" and "logistic" in named.evaluations
    assert small(graph, tasks, "smooth").config.head == "logistic"
    one = small(graph, tasks, "smooth", heads=lambda embedding, tasks: nearest(embedding, tasks))
    assert one.accuracy == one.evaluations["<lambda>"].accuracy
    with pytest.raises(OptionError, match="lambda"):
        small(graph, tasks, "smooth", heads=lambda embedding, tasks: 0, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


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
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == ["metrics.json", "seed1", "seed2", "seed3"]
    written = json.loads((tmp_path / "runs" / "metrics.json").read_text())
    assert written["seeds"] == [1, 2, 3] and "seed" not in written["config"]
    again = naq.Result.from_json(written)
    assert (again.accuracy, again.ci95, str(again)) == (result.accuracy, result.ci95, str(result))
    assert again.to_frame().equals(result.to_frame()) and again.config == result.config
    frame = result.to_frame()
    mine = frame[(frame.method == "naq-feat/protonet") & (frame["head"] == "logistic")]
    assert mine.seed.tolist() == [1, 2, 3] and mine.accuracy.tolist() == [one.accuracy for one in alone]
    assert set(frame.method) == {"naq-feat/protonet", "smooth"} and (frame.tasks == len(result.per_task)).all()
    for seeds in (0, 2.5, "3"):
        with pytest.raises(OptionError, match="seeds is"):
            small(graph, tasks, seeds=seeds)
    with pytest.raises(OptionError, match="checkpoint is of one training"):
        small(graph, tasks, seeds=2, checkpoint=tmp_path / "c.safetensors")


def test_a_folder_of_seeds_and_one_of_a_run_are_not_taken_for_each_other(graph, tasks, tmp_path):
    given = {"options": {"dim": 16}, "tasks": tasks, "way": 2}
    naq.run(graph, "smooth", out=tmp_path / "one", **given)
    with pytest.raises(OptionError, match="holds a run of one seed, but seeds is 2"):
        naq.run(graph, "smooth", out=tmp_path / "one", seeds=2, **given)
    naq.run(graph, "smooth", out=tmp_path / "two", seeds=2, **given)
    with pytest.warns(UserWarning, match="another seed"):
        assert naq.run(graph, "smooth", out=tmp_path / "two", **given).per_seed == ()


def test_a_result_of_seeds_is_read_with_a_head_of_ones_own(graph, tasks):
    result = small(graph, tasks, "smooth", seeds=2, heads=nearest)
    again = naq.Result.from_json(json.loads(json.dumps(result.to_json())), result.config)
    assert [one.config.seed for one in again.per_seed] == [0, 1] and again.accuracy == result.accuracy


@pytest.mark.parametrize("shape", [(5, 200), (3, 2), (4, 1)])
def test_the_interval_over_seeds_and_tasks_is_that_of_the_tables(shape):
    random = np.random.default_rng(0)
    for noise in (0.0, 0.01, 1.0):
        runs = 0.5 + noise * random.standard_normal((shape[0], 1)) + random.standard_normal(shape)
        if shape[1] == 1:
            assert interval_over_runs(runs) > 0
            continue
        zero = score(np.zeros((1, shape[1])), "same", trained=False)
        assert interval_over_runs(runs) == pytest.approx(difference(score(runs, "same"), zero).ci95, rel=1e-12)


def coverage(count, of_seeds, of_tasks, interval=interval_over_runs):
    """How often the interval holds the truth, which is 0."""
    random = np.random.default_rng(1)
    seeds, tasks, rest = (random.standard_normal((2000, *shape)) for shape in ((count, 1), (1, 40), (count, 40)))
    runs = of_seeds * seeds + of_tasks * tasks + rest
    return np.mean([abs(one.mean()) < interval(one) for one in runs])


def test_the_interval_covers_what_it_says():
    assert 0.93 < coverage(5, 0.3, 2) < 0.975


@pytest.mark.parametrize("of_seeds", [0, 0.1, 0.3, 1])
def test_the_interval_of_two_seeds_is_not_too_short(of_seeds):
    assert coverage(2, of_seeds, 2) > 0.945


def test_what_two_seeds_had_before_was_too_short():
    def of_the_tables(runs):
        return difference(score(runs, "same"), score(np.zeros((1, runs.shape[1])), "same", trained=False)).ci95

    assert coverage(2, 1, 2, of_the_tables) < 0.93


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


class Pruned(Exception):
    """As ``optuna.TrialPruned``."""


@pytest.mark.parametrize("seeds", [None, 2])
def test_a_listener_stops_the_run_by_what_it_says_it_raises(graph, tasks, seeds):
    def prune(phase, facts):
        if phase == "train" and facts["evaluated"]:
            raise Pruned

    with pytest.warns(UserWarning, match="prune failed"):
        small(graph, tasks, listener=prune, seeds=seeds)
    prune.raises = (Pruned,)
    with pytest.raises(Pruned):
        small(graph, tasks, listener=prune, seeds=seeds)


def test_listeners_and_checks_are_there_after_importing_naq_alone():
    code = "import naq; print(naq.listeners.TensorBoard.__name__, naq.testing.check_head.__name__)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert found == "TensorBoard check_head\n"


def test_several_devices_are_for_reproduce(graph, tasks):
    with pytest.raises(OptionError, match="naq reproduce"):
        small(graph, tasks, device="cuda:0,cuda:1")


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
    monkeypatch.setitem(sys.modules, module, fake)
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
    monkeypatch.setitem(sys.modules, "wandb", fake)
    tracker = listeners.WandB()
    for _ in range(2):
        tracker("config", {"config": {"seed": 0}})
    assert [name for name, *_ in fake.calls] == ["init", "finish", "init"]


def test_runs_of_tensorboard_have_names_of_their_own(monkeypatch):
    fake = Fake()
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", fake)
    for tracker in (listeners.TensorBoard("logs"), listeners.TensorBoard("logs"), listeners.TensorBoard("logs", "gat")):
        for seed in (0, 1):
            tracker("config", {"config": {"seed": seed}})
    places = [given[0] for name, given, _ in fake.calls if name == "SummaryWriter"]
    assert len(set(places)) == 6 and places[-2:] == ["logs/gat-seed0", "logs/gat-seed1"]


@pytest.mark.parametrize(("module", "package"), [("wandb", "wandb"), ("mlflow", "mlflow")])
def test_a_tracker_that_is_not_installed_says_how_to(monkeypatch, module, package):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingDependency, match=f"pip install {package}"):
        TRACKERS[module]()
