"""Statistics: formulas against hand-made numbers and a slow two-way table, chance against simulation, ranks against the
paper's."""

from __future__ import annotations

import csv
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import naq_paper
from naq.errors import OptionError
from naq.random import stream
from naq_paper.statistics import (
    Score,
    SeedPrior,
    average_ranks,
    compare,
    detectable,
    difference,
    family,
    score,
    seed_prior,
)
from naq_paper.statistics.differences import PRIOR_DEGREES, half_width, tail_p

PAPER = Path(naq_paper.__file__).parent / "experiments" / "paper"
TASKS = 500
STORED_SEEDS = (0.0, 0.002, 0.003, 0.005, 0.007, 0.01, 0.015, 0.03)
"""Standard deviations over seeds as the methods of the stored results have them."""


def drawn(random: np.random.Generator, seeds: int, sd_seed: float = 0.01, tasks: int = TASKS) -> np.ndarray:
    """Accuracies of one method without what its tasks share: its own taste for tasks, the luck of each seed, and the
    rest."""
    own = 0.6 + random.normal(0, 0.05, tasks)
    return own + random.normal(0, sd_seed, (seeds, 1)) + random.normal(0, 0.06, (seeds, tasks))


def equal_rows(random: np.random.Generator, rows: int, seeds: int) -> dict[str, Score]:
    """Methods of one true mean, with variances over seeds like the stored ones, and a baseline that trains nothing."""
    common = random.normal(0, 0.11, TASKS)
    found = {
        f"m{row}": score(common + drawn(random, seeds, random.choice(STORED_SEEDS)), "t") for row in range(rows - 1)
    }
    baseline = score([common + 0.6 + random.normal(0, 0.05, TASKS)], "t", trained=False)
    return {**found, "smooth": baseline}


def test_a_score_is_mean_interval_and_spread() -> None:
    runs = [[0.5, 0.7, 0.9], [0.6, 0.6, 0.9]]
    found = score(runs, "abc")
    np.testing.assert_allclose(found.per_task, [0.55, 0.65, 0.9])
    assert found.mean == pytest.approx(0.7)
    assert found.ci95 == pytest.approx(1.96 * np.std([0.55, 0.65, 0.9]) / np.sqrt(3))
    assert found.spread == pytest.approx(0.0)
    assert found.rest == pytest.approx(0.02 / 4 * 2 / 2), "residuals -0.05, 0.05, 0 and their negatives"
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


def two_way_mean_squares(y: np.ndarray) -> tuple[float, float]:
    """MS_seed and MS_rest, term by term as in a textbook."""
    seeds, tasks = y.shape
    grand = sum(y[s, t] for s in range(seeds) for t in range(tasks)) / (seeds * tasks)
    of_seed = [sum(y[s, t] for t in range(tasks)) / tasks for s in range(seeds)]
    of_task = [sum(y[s, t] for s in range(seeds)) / seeds for t in range(tasks)]
    between = sum(tasks * (m - grand) ** 2 for m in of_seed) / (seeds - 1)
    rest = sum((y[s, t] - of_seed[s] - of_task[t] + grand) ** 2 for s in range(seeds) for t in range(tasks))
    return between, rest / ((seeds - 1) * (tasks - 1))


@pytest.mark.parametrize(("seeds_a", "seeds_b"), [(2, 2), (3, 5), (4, 2)])
def test_a_difference_is_that_of_two_way_tables(seeds_a: int, seeds_b: int) -> None:
    random, tasks = stream(0, "two-way"), 12
    a, b = drawn(random, seeds_a, 0.03, tasks), drawn(random, seeds_b, 0.03, tasks)
    terms = []
    for y in (a, b):
        between, rest = two_way_mean_squares(y)
        seeds = len(y)
        terms += [
            (between / (seeds * tasks), seeds - 1),
            (-rest / (seeds * tasks), (seeds - 1) * (tasks - 1)),
        ]
    d = a.mean(axis=0) - b.mean(axis=0)
    terms.append((sum((x - d.mean()) ** 2 for x in d) / (tasks - 1) / tasks, tasks - 1))
    variance = sum(value for value, _ in terms)
    degrees = variance**2 / sum(value**2 / freedom for value, freedom in terms)
    found = difference(score(a, "t"), score(b, "t"))
    assert variance > max(terms[0][0] + terms[2][0], terms[4][0]), "the bound must not be what is tested here"
    assert found.ci95 == pytest.approx(stats.t.ppf(0.975, degrees) * np.sqrt(variance))
    assert found.p == pytest.approx(2 * stats.t.sf(abs(found.mean) / np.sqrt(variance), degrees))


def test_a_variance_is_never_below_that_of_its_larger_source() -> None:
    """Seeds of equal means: their mean square is 0, less than the rest that it contains; the tasks are left."""
    a = np.array([[0.1, 0.9, 0.5, 0.5], [0.9, 0.1, 0.4, 0.6]])
    b = np.array([[0.2, 0.7, 0.4, 0.3], [0.2, 0.7, 0.4, 0.3]])
    found = difference(score(a, "t"), score(b, "t"))
    oracle = stats.ttest_rel(a.mean(axis=0), b.mean(axis=0))
    assert found.p == pytest.approx(oracle.pvalue) and found.seeds_known


def test_the_variance_is_unbiased_and_the_interval_covers_the_truth() -> None:
    sd_seed, covered, variances, means = 0.008, 0, [], []
    for trial in range(1500):
        random = stream(0, "unbiased", trial)
        a, b = (score(drawn(random, 3, sd_seed, 100), "t") for _ in range(2))
        found = difference(a, b)
        covered += abs(found.mean) <= found.ci95
        means.append(found.mean)
        assert a.spread is not None and b.spread is not None and a.rest is not None and b.rest is not None
        tasks = np.var(a.per_task - b.per_task, ddof=1) / 100
        variances.append((a.spread**2 + b.spread**2) / 3 + tasks - (a.rest + b.rest) / 300)
    truth = 2 * (sd_seed**2 / 3 + 0.05**2 / 100 + 0.06**2 / 300)
    assert np.mean(variances) == pytest.approx(truth, rel=0.03)
    assert np.var(means) == pytest.approx(truth, rel=0.1)
    assert 0.94 <= covered / 1500 <= 0.97


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


def test_a_single_seed_claims_nothing() -> None:
    random = stream(0, "single")
    several, one = score(drawn(random, 3), "t"), score(drawn(random, 1) - 0.3, "t")
    found = difference(several, one)
    assert not found.seeds_known
    assert found.p == pytest.approx(stats.ttest_rel(several.per_task, one.per_task).pvalue), (
        "the interval is over tasks"
    )
    assert family({"only": (several, one)})["only"].p is None
    standings = compare({"several": several, "one": one, "other": score(several.runs - 0.3, "t")}, "one")
    assert {name: (s.mark, s.against) for name, s in standings.items()} == {
        "several": ("", ""),
        "one": ("", ""),
        "other": ("▼", ""),
    }, "the best is not above every other while one is not compared"
    assert not any(s.mark or s.against for s in compare({"a": one, "b": score(one.runs, "t")}, "b").values())


def test_a_method_without_training_has_no_seed_term() -> None:
    random = stream(0, "training-free")
    trained, fixed = score(drawn(random, 3), "t"), drawn(random, 2)
    free = difference(trained, score(fixed, "t", trained=False))
    assert free.seeds_known and len(free.sources) == 2
    assert free.ci95 < difference(trained, score(fixed + np.array([[0.01], [-0.01]]), "t")).ci95
    assert difference(score(fixed[:1], "t", trained=False), score(fixed[1:], "t", trained=False)).seeds_known
    assert not difference(score(fixed[:1], "t"), score(fixed, "t", trained=False)).seeds_known


def test_equal_numbers_are_equal_and_constant_gaps_are_certain() -> None:
    a, b = score([[0.5, 0.5]], "t"), score([[0.25, 0.25]], "t")
    assert (difference(a, a).p, difference(a, a).ci95) == (1.0, 0.0)
    assert (difference(a, b).p, difference(a, b).mean) == (0.0, 0.25)


def test_one_task_has_no_interval() -> None:
    with pytest.raises(OptionError, match="two tasks"):
        difference(score([[0.5]], "t"), score([[0.4]], "t"))


def test_the_tail_is_students_where_one_source_is_left_and_between_them_otherwise() -> None:
    assert tail_p(0.5, [(0.01, 4), (0.0, 99)]) == pytest.approx(2 * stats.t.sf(5, 4))
    for mean in (0.1, 0.5, 2.0, 20.0):
        sources = [(0.01, 2), (0.02, 4), (0.03, 499)]
        p = tail_p(mean, sources)
        quantiles = [stats.t.isf(p / 2, freedom) for _, freedom in sources]
        assert sum(value * q**2 for (value, _), q in zip(sources, quantiles)) == pytest.approx(mean**2, rel=1e-6)
        assert half_width(sources, p) == pytest.approx(mean, rel=1e-6)
    assert tail_p(0.0, [(0.1, 3)]) == 1.0 and tail_p(0.1, []) == 0.0 and tail_p(1e6, [(1e-12, 499)]) < 1e-100
    two_seeds = [(1e-5, 1), (1e-5, 399)]  # quantiles of one degree of freedom are as large as 1 / p
    assert half_width(two_seeds, tail_p(0.2, two_seeds)) == pytest.approx(0.2, rel=1e-6)


def test_a_prior_is_the_typical_variance_over_seeds() -> None:
    rows = [[0.61, 0.63, 0.66], [0.55, 0.59, 0.52], [0.1, 0.9, 0.5]]
    scores = [score([[v] * 4 for v in row], "t") for row in rows]
    fixed = score([[0.5] * 4, [0.7] * 4], "t", trained=False)
    found = seed_prior([*scores, fixed, score([[0.2, 0.1, 0.3, 0.9]], "t")])
    assert found is not None and found.degrees == 6
    assert found.variance == pytest.approx(np.var(rows[1], ddof=1) / stats.f.median(2, PRIOR_DEGREES))
    assert seed_prior([fixed]) is None
    random = stream(0, "prior")
    variances = 0.01**2 * PRIOR_DEGREES / random.chisquare(PRIOR_DEGREES, 4000)
    many = seed_prior(score(np.sqrt(v) * random.normal(size=(3, 1)) + np.zeros((3, 4)), "t") for v in variances)
    assert many is not None and many.variance == pytest.approx(0.01**2, rel=0.1)


def test_a_prior_enters_the_tail_by_its_degrees() -> None:
    a, b = score([[v] * 10 for v in (0.61, 0.63, 0.66)], "t"), score([[v] * 10 for v in (0.5, 0.52, 0.51)], "t")
    assert a.spread is not None and b.spread is not None
    with_prior, alone = difference(a, b, SeedPrior(0.02**2, 40)), difference(a, b)
    moderated = [(2 * 0.02**2 + 2 * s.spread**2) / 4 / 3 for s in (a, b)]  # type: ignore[operator]
    assert [value for value, _ in with_prior.sources[:2]] == pytest.approx(moderated)
    assert [freedom for _, freedom in with_prior.sources] == [4, 4, 9]
    assert (with_prior.p, with_prior.ci95) == (alone.p, alone.ci95)
    few = difference(a, b, SeedPrior(0.02**2, 6))
    assert [freedom for _, freedom in few.sources[:2]] == [3, 3], "four degrees of others count as one"
    assert [freedom for _, freedom in difference(a, b, SeedPrior(0.02**2, 2)).sources[:2]] == [2, 2]


def test_holm_corrects_for_the_pairs_given() -> None:
    random = stream(0, "Holm")
    base = score(drawn(random, 5, 0.004), "t")
    pairs = {i: (score(drawn(random, 5, 0.004) - shift, "t"), base) for i, shift in enumerate((0.0, 0.02, 0.025, 0.1))}
    found = family(pairs)
    ordered = sorted(found.values(), key=lambda one: one.difference.tail_p)
    expected, least = [], 0.0
    for i, one in enumerate(ordered):
        least = max(least, min(1.0, (4 - i) * one.difference.tail_p))
        expected.append(max(least, one.difference.p))
    assert [one.p for one in ordered] == pytest.approx(expected)
    assert found[3].significant and not found[0].significant
    alone = family({1: pairs[1]})[1]
    assert alone.p is not None and found[1].p is not None and alone.p < found[1].p


def _column(means: dict[str, float], seeds: int = 3) -> dict[str, Score]:
    random = stream(0, "column")
    common = random.normal(0, 0.1, TASKS)
    return {name: score(mean - 0.6 + drawn(random, seeds, 0.002) + common, "t") for name, mean in means.items()}


def test_a_clear_winner_is_marked() -> None:
    found = compare(_column({"low": 0.4, "best": 0.7, "middle": 0.6}), "middle")
    assert {name: (s.rank, s.mark, s.against) for name, s in found.items()} == {
        "low": (3, "▼", "s-"),
        "best": (1, "▲", "s+"),
        "middle": (2, "▼", ""),
    }
    behind, ahead = found["middle"].to_best, found["best"].to_baseline
    assert found["best"].to_best is None and found["middle"].to_baseline is None and behind and ahead
    assert behind.difference.mean == pytest.approx(-ahead.difference.mean) and behind.p == ahead.p


def test_rows_too_close_to_call_are_marked_with_the_best() -> None:
    found = compare(_column({"a": 0.7, "b": 0.7, "low": 0.5}), "b")
    assert [found[name].mark for name in found] == ["≈", "≈", "▼"]
    assert [found[name].against for name in found] == ["s=", "", "s-"]


def test_ties_share_a_rank_and_a_row_alone_has_no_mark() -> None:
    a, c = score([[0.5, 0.7, 0.6]] * 2, "t"), score([[0.1, 0.2, 0.3]] * 2, "t")
    assert [s.rank for s in compare({"a": a, "b": a, "c": c}).values()] == [1, 1, 3]
    assert {s.mark for s in compare({"a": a, "b": a}).values()} == {"≈"}
    assert compare({"a": a})["a"].mark == "" and {s.against for s in compare({"a": a, "b": a}, "x").values()} == {""}
    assert compare({}) == {}


@pytest.mark.parametrize(("rows", "seeds", "trials"), [(4, 2, 400), (12, 2, 100), (12, 3, 60), (12, 5, 60), (30, 3, 6)])
def test_equal_methods_rarely_bear_a_false_mark(rows: int, seeds: int, trials: int) -> None:
    """At most 5 % of columns have any, with the baseline and with the best, which the data choose."""
    false = 0
    for trial in range(trials):
        found = compare(equal_rows(stream(0, f"equal {rows} {seeds}", trial), rows, seeds), "smooth")
        false += any(s.mark in ("▲", "▼") or s.against in ("s+", "s-") for s in found.values())
    assert false <= 0.05 * trials


def test_what_is_detectable_is_found_in_four_of_five() -> None:
    columns = []
    for trial in range(120):
        random = stream(0, "power", trial)
        common = random.normal(0, 0.1, TASKS)
        columns.append({str(i): score(common + drawn(random, 5, 0.006), "t") for i in range(3)})
    shift = float(np.median([detectable(column) or 0.0 for column in columns]))
    found = 0
    for column in columns:
        column["0"] = score(column["0"].runs - shift, "t")
        pairs = {(a, b): (column[a], column[b]) for a, b in combinations(column, 2)}
        found += family(pairs)["0", "1"].significant
    assert 0.01 < shift < 0.04 and 0.7 <= found / 120 <= 0.92


def test_nothing_is_detectable_with_one_seed_or_one_row() -> None:
    random = stream(0, "one seed")
    a, b = score(drawn(random, 1), "t"), score(drawn(random, 1), "t")
    assert detectable({"a": a, "b": b}) is None and detectable({"a": a}) is None and detectable({}) is None
    seeds = [detectable(_column({"a": 0.6, "b": 0.6, "c": 0.6}, n)) or 0.0 for n in (2, 3, 5)]
    assert seeds == sorted(seeds, reverse=True) and seeds[-1] > 0


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
