"""Statistics: formulas against hand-made numbers, chance against simulation, ranks against the paper's."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import naq.statistics as statistics_module
from naq.errors import OptionError
from naq.randomness import stream
from naq.statistics import Score, SeedVariance, average_ranks, compare, difference, pooled_variance, score

PAPER = Path(statistics_module.__file__).parent / "experiments" / "paper"


def drawn(generator: np.random.Generator, seeds: int, *, shift: float = 0.0, sd_seed: float = 0.01) -> np.ndarray:
    """Accuracies of one method on 500 tasks: its own taste for tasks, the luck of each seed, and both together."""
    own = 0.6 + shift + generator.normal(0, 0.06, 500)
    return own + generator.normal(0, sd_seed, (seeds, 1)) + generator.normal(0, 0.03, (seeds, 500))


def false_positives(seeds_a: int, seeds_b: int, trials: int = 400, sd_seed: float = 0.01) -> float:
    """How often two equal methods differ significantly."""
    found = 0
    for trial in range(trials):
        generator = stream(0, f"false positives {seeds_a} {seeds_b}", trial)
        common = generator.normal(0, 0.12, 500)
        a, b = (score(drawn(generator, seeds, sd_seed=sd_seed) + common, "same") for seeds in (seeds_a, seeds_b))
        found += difference(a, b).p < 0.05
    return found / trials


def test_a_score_is_mean_interval_and_spread() -> None:
    runs = [[0.5, 0.7, 0.9], [0.6, 0.6, 0.9]]
    found = score(runs, "abc")
    np.testing.assert_allclose(found.per_task, [0.55, 0.65, 0.9])
    assert found.mean == pytest.approx(0.7)
    assert found.ci95 == pytest.approx(1.96 * np.std([0.55, 0.65, 0.9]) / np.sqrt(3))
    assert found.spread == pytest.approx(0.0)
    assert (found.seeds, found.tasks, found.runs.shape) == (2, "abc", (2, 3))
    assert score([[0.2, 0.4], [0.4, 0.6]]).spread == pytest.approx(np.std([0.3, 0.5], ddof=1))


def test_one_seed_has_no_spread_and_the_paper_interval() -> None:
    values = stream(0, "one seed").uniform(size=500)
    found = score([values])
    assert found.spread is None
    assert found.ci95 == pytest.approx(1.96 * values.std(ddof=0) / np.sqrt(500))


@pytest.mark.parametrize("runs", [[], [[]], [[0.1, 0.2], [0.1]], [[0.1, float("nan")]], [[[0.1]]]])
def test_runs_that_are_no_runs_are_refused(runs: list) -> None:
    with pytest.raises(OptionError, match="runs"):
        score(runs)


def test_one_seed_a_side_is_the_paired_t_test() -> None:
    generator = stream(0, "paired")
    x, y = generator.uniform(size=(2, 60))
    found = difference(score([x], "t"), score([y], "t"))
    oracle = stats.ttest_rel(x, y)
    interval = oracle.confidence_interval(0.95)
    assert found.p == pytest.approx(oracle.pvalue)
    assert (found.mean - found.ci95, found.mean + found.ci95) == pytest.approx((interval.low, interval.high))
    assert found.paired and not found.seeds_known


@pytest.mark.parametrize(("tasks_a", "tasks_b"), [("t", "u"), ("", "")])
def test_other_or_unknown_tasks_are_welch_t_test(tasks_a: str, tasks_b: str) -> None:
    generator = stream(0, "unpaired")
    x, y = generator.uniform(size=40), generator.uniform(size=60)
    found = difference(score([x], tasks_a), score([y], tasks_b))
    assert found.p == pytest.approx(stats.ttest_ind(x, y, equal_var=False).pvalue)
    assert not found.paired


def test_seeds_alone_are_welch_t_test() -> None:
    """With tasks that are all equal only the seeds are left."""
    a, b = [0.61, 0.63, 0.66], [0.55, 0.59, 0.52, 0.56]
    found = difference(score([[v] * 10 for v in a], "t"), score([[v] * 10 for v in b], "t"))
    oracle = stats.ttest_ind(a, b, equal_var=False)
    assert found.p == pytest.approx(oracle.pvalue, rel=1e-6)
    assert found.seeds_known


def test_a_single_seed_borrows_the_spread_of_the_other_side() -> None:
    """... which is the t-test of one observation against a sample, where only seeds are left."""
    a, b = [0.61, 0.63, 0.66], [0.55]
    found = difference(score([[v] * 10 for v in a], "t"), score([[v] * 10 for v in b], "t"))
    assert found.p == pytest.approx(stats.ttest_ind(a, b).pvalue, rel=1e-6)
    assert found.seeds_known


def test_a_method_without_training_has_no_seeds_to_doubt() -> None:
    generator = stream(0, "training-free")
    trained, fixed = score(drawn(generator, 3), "t"), drawn(generator, 1)
    free = difference(trained, score(fixed, "t", trained=False))
    assert free.seeds_known and free.ci95 < difference(trained, score(fixed, "t")).ci95
    assert difference(score(fixed, "t", trained=False), score(fixed, "t", trained=False)).seeds_known
    assert not difference(score(fixed, "t"), score(fixed, "t", trained=False)).seeds_known


def test_equal_numbers_are_equal_and_constant_gaps_are_certain() -> None:
    a, b = score([[0.5, 0.5]], "t"), score([[0.25, 0.25]], "t")
    assert (difference(a, a).p, difference(a, a).ci95) == (1.0, 0.0)
    assert (difference(a, b).p, difference(a, b).mean) == (0.0, 0.25)


def test_a_difference_is_antisymmetric() -> None:
    generator = stream(0, "both ways")
    a, b = score(drawn(generator, 3), "t"), score(drawn(generator, 2), "t")
    there, back = difference(a, b), difference(b, a)
    assert there.mean == pytest.approx(-back.mean)
    assert (there.p, there.ci95) == pytest.approx((back.p, back.ci95))


def test_one_task_has_no_interval() -> None:
    with pytest.raises(OptionError, match="two tasks"):
        difference(score([[0.5]], "t"), score([[0.4]], "t"))


@pytest.mark.parametrize(("seeds", "sd_seed"), [(1, 0.0), (3, 0.01), (5, 0.01), (3, 0.003)])
def test_equal_methods_differ_significantly_about_as_often_as_promised(seeds: int, sd_seed: float) -> None:
    assert 0.02 <= false_positives(seeds, seeds, sd_seed=sd_seed) <= 0.08


def test_a_borrowed_spread_keeps_its_promise_roughly() -> None:
    assert 0.02 <= false_positives(5, 1) <= 0.1


def test_one_seed_says_nothing_about_training() -> None:
    """Why ``seeds_known`` matters: tested over tasks only, the luck of two trainings looks like a difference."""
    assert false_positives(1, 1, sd_seed=0.01) > 0.3


def test_the_interval_covers_the_true_difference() -> None:
    covered = 0
    for trial in range(400):
        generator = stream(0, "coverage", trial)
        a, b = score(drawn(generator, 3, shift=0.02), "t"), score(drawn(generator, 3), "t")
        found = difference(a, b)
        covered += abs(found.mean - 0.02) <= found.ci95
    assert 0.92 <= covered / 400 <= 0.98


def _column(means: dict[str, float], seeds: int = 3) -> dict[str, Score]:
    generator = stream(0, "column")
    common = generator.normal(0, 0.1, 500)
    return {
        name: score(mean - 0.6 + drawn(generator, seeds, sd_seed=0.002) + common, "t") for name, mean in means.items()
    }


def test_a_clear_winner_is_marked() -> None:
    found = compare(_column({"low": 0.4, "best": 0.7, "middle": 0.6}))
    assert {name: (s.rank, s.mark) for name, s in found.items()} == {
        "low": (3, "▼"),
        "best": (1, "▲"),
        "middle": (2, "▼"),
    }
    assert found["best"].to_best is None and not found["best"].apart
    assert found["middle"].to_best is not None and found["middle"].to_best.mean < 0


def test_rows_too_close_to_call_are_marked_with_the_best() -> None:
    found = compare(_column({"a": 0.7, "b": 0.7, "low": 0.5}))
    assert (found["a"].mark, found["b"].mark, found["low"].mark) == ("≈", "≈", "▼")
    assert found["low"].p is not None and found["low"].p < 0.05 < (found["a"].p or found["b"].p or 0)


def test_ties_share_a_rank_and_a_row_alone_has_no_mark() -> None:
    a, c = score([[0.5, 0.7, 0.6]], "t"), score([[0.1, 0.2, 0.3]], "t")
    assert [s.rank for s in compare({"a": a, "b": a, "c": c}).values()] == [1, 1, 3]
    assert {s.mark for s in compare({"a": a, "b": a}).values()} == {"≈"}
    assert compare({"a": a})["a"].mark == ""
    assert compare({}) == {}


def test_twelve_equal_rows_rarely_bear_a_false_mark() -> None:
    """The best is picked from the data: without counting all pairs every fifth column would have one."""
    false = 0
    for trial in range(100):
        generator = stream(0, "equal rows", trial)
        column = {str(i): score(drawn(generator, 1, sd_seed=0), "t") for i in range(12)}
        false += any(s.mark == "▼" for s in compare(column).values())
    assert false <= 11


def test_a_pooled_variance_is_the_middle_one_and_right_where_all_are_equal() -> None:
    rows = [[0.61, 0.63, 0.66], [0.55, 0.59, 0.52], [0.1, 0.9, 0.5]]
    scores = [score([[v] * 4 for v in row], "t") for row in rows]
    fixed = score([[0.5] * 4], "t", trained=False)
    found = pooled_variance([*scores, fixed, score([[0.2, 0.1, 0.3, 0.9]], "t")])
    assert found is not None and found.degrees == 3
    assert found.variance == pytest.approx(np.var(rows[1], ddof=1) * 2 / stats.chi2.median(2))
    assert pooled_variance([fixed]) is None
    generator = stream(0, "all alike")
    alike = [score(0.6 + 0.01 * generator.normal(size=(3, 1)) + np.zeros((3, 4)), "t") for _ in range(2000)]
    many = pooled_variance(alike)
    assert many is not None and many.variance == pytest.approx(0.01**2, rel=0.1)


def test_a_pooled_variance_alone_is_students_t_test_and_a_larger_own_one_stays() -> None:
    a, b = score([[v] * 10 for v in (0.61, 0.63, 0.66)], "t"), score([[v] * 10 for v in (0.5, 0.5, 0.5)], "t")
    wide = SeedVariance(0.05**2, 40)
    error = np.sqrt(0.05**2 * 2 / 3)
    assert difference(a, b, wide).p == pytest.approx(2 * stats.t.sf((a.mean - b.mean) / error, 40), rel=1e-6)
    narrow = SeedVariance(0.001**2, 40)
    assert a.spread is not None
    error = np.sqrt((a.spread**2 + 0.001**2) / 3)
    assert difference(a, b, narrow).p == pytest.approx(2 * stats.t.sf((a.mean - b.mean) / error, 40), rel=1e-6)


def test_rows_ten_points_apart_differ_significantly_with_three_seeds_and_equal_ones_do_not() -> None:
    """Thirty rows of three seeds: each knows its own spread too badly, all together know it well."""
    lost = false = 0
    for trial in range(20):
        generator = stream(0, "thirty rows", trial)
        column = {str(i): score(drawn(generator, 3) - (0.1 if i < 15 else 0.0), "t") for i in range(30)}
        found = compare(column)
        lost += any(found[str(i)].mark != "▼" for i in range(15))
        false += any(found[str(i)].mark == "▼" for i in range(15, 30))
    assert lost == 0 and false <= 2


def _paper_columns(table: str, dataset: str) -> list[dict[str, float | str]]:
    columns: dict[tuple[str, str], dict[str, float | str]] = {}
    with (PAPER / "paper_tables.csv").open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if (row["table"], row["dataset"]) == (table, dataset):
                value = row["accuracy"]
                number: float | str = value if value.isalpha() else float(value)
                columns.setdefault((row["way"], row["shot"]), {})[f"{row['method']}|{row['episodes']}"] = number
    return list(columns.values())


def test_every_average_rank_of_the_paper_is_reproduced() -> None:
    """GLITTER on DBLP (four of six columns OOT or OOM, rank 9.50) tells the rule: ranked in the columns it has."""
    with (PAPER / "paper_ranks.csv").open(newline="", encoding="utf-8") as file:
        published = list(csv.DictReader(file))
    assert len(published) == 48
    for row in published:
        found = average_ranks(_paper_columns(row["table"], row["dataset"]))[f"{row['method']}|{row['episodes']}"]
        assert found == pytest.approx(float(row["avg_rank"]), abs=0.00501), row


def test_average_ranks_of_ties_words_and_nothing() -> None:
    assert average_ranks([{"a": 1.0, "b": 1.0, "c": 0.5}]) == {"a": 1.5, "b": 1.5, "c": 3.0}
    assert average_ranks([{"a": 1.0, "b": "OOM"}, {"b": 2.0, "a": 1.0}, {"a": None}]) == {"a": 1.5, "b": 1.0}
    assert average_ranks([{"a": np.float32(1), "b": 2}]) == {"a": 2.0, "b": 1.0}
    assert average_ranks([]) == {}
    with pytest.raises(OptionError, match="NaN"):
        average_ranks([{"a": float("nan")}])
