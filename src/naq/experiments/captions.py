"""Words and pieces that the views of experiments share: sentences on differences, entries of tables, series of plots."""

from __future__ import annotations

from collections.abc import Sequence

from naq.experiments.experiment import Study
from naq.experiments.names import full_name
from naq.experiments.paper import PaperNumber
from naq.experiments.views import Number, Series, TextView
from naq.protocol.evaluation import BASELINE
from naq.statistics import Difference, Score, SeedVariance, Standing, difference

Level = float | str
"""Of a condition: numbers make an axis, texts make groups."""
TEST_ACCURACY = "test accuracy, %"
WHISKERS = "Whiskers are 95 % intervals over test tasks."
ONE_SEED = "one training each: the variance between seeds is not in it"
SMOOTH = full_name(BASELINE)
"""What the `smooth` baseline is called beside trained methods."""
NOTHING = "Nothing is finished yet."


def findings(study: Study, sentences: Sequence[str]) -> TextView:
    """What was found on a dataset, which is named where there are several."""
    several = len(study.request.datasets) > 1
    return TextView([f"{study.dataset}: {sentence}" if several else sentence for sentence in sentences])


def dataset_slug(dataset: str) -> str:
    """A dataset's name or path as part of a file name."""
    stem = dataset.replace("\\", "/").rstrip("/").rpartition("/")[2].removesuffix(".npz")
    return "".join(c if c.isalnum() else "-" for c in stem).strip("-").lower() or "graph"


def table_name(study: Study, part: str = "") -> str:
    """The stem of a view's files: ``methods-debian``, ``methods-heads-debian``."""
    return "-".join(word for word in (study.experiment.name, part, dataset_slug(study.dataset)) if word)


def number(
    found: Score,
    standing: Standing | None = None,
    *,
    paper: float | str | None = None,
    paper_ci: float | None = None,
    keys: Sequence[str] = (),
) -> Number:
    """A score as an entry of a table, in percent."""
    return Number(
        100 * found.mean,
        100 * found.ci95,
        None if found.spread is None else 100 * found.spread,
        found.seeds,
        paper,
        paper_ci,
        standing.rank if standing is not None and standing.rank <= 2 else 0,
        standing.mark if standing is not None else "",
        keys=tuple(keys),
    )


def score_series(name: str, x: Sequence[Level], scores: Sequence[Score | None]) -> Series:
    """Accuracies in percent with their intervals over tasks."""

    def percent(side: int) -> list[float | None]:
        return [None if s is None else 100 * (s.mean + side * s.ci95) for s in scores]

    return Series(name, list(x), percent(0), percent(-1), percent(1))


def value_of(known: PaperNumber | None) -> float | None:
    """The paper's number, where it has one."""
    return None if known is None else known.value


def from_paper(name: str, levels: Sequence[Level], known: Sequence[PaperNumber | None]) -> list[Series]:
    """The paper's numbers as a series, or none where it has none."""
    values = [value_of(one) for one in known]
    return [] if all(value is None for value in values) else [Series(name, list(levels), values, paper=True)]


def amount(found: Difference) -> str:
    """``3.1 ± 0.8 points``, whatever its direction."""
    return f"{100 * abs(found.mean):.1f} ± {100 * found.ci95:.1f} points"


def points(found: Difference) -> str:
    """``3.1 ± 0.8 points``, and whether it is significant; for a comparison that was not picked from many."""
    significant = "p < 0.05" if abs(found.mean) > found.ci95 else "no significant difference"
    return f"{amount(found)} ({significant}{'' if found.seeds_known else f'; {ONE_SEED}'})"


def gain(a: Score, b: Score, variance: SeedVariance | None = None) -> str:
    """How much ``a`` is above or below ``b``, in words."""
    found = difference(a, b, variance)
    return f"{'above' if found.mean >= 0 else 'below'} by {points(found)}"
