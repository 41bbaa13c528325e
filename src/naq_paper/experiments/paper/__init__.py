"""The paper's own numbers.

The CSV files next to this module are transcripts of the paper's tables; ``origins.csv`` says where each is. Numbers of
tables are counted in the order of the paper's LaTeX source. Bar heights of figures were read off its poster and are
approximate.

>>> found = paper_accuracy("amazon-clothing", "naq-feat/protonet", way=5, shot=1)
>>> found.value, found.ci95
(83.77, 0.96)
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from naq.errors import OptionError
from naq.options import did_you_mean
from naq_paper.experiments.names import paper_generator, paper_method, paper_name

FILES = (
    *("paper_tables", "paper_ranks", "paper_class_similarity", "paper_overlap_ratio"),
    *("paper_times", "paper_figures_digitised"),
)
WHOLE_TABLES = ("full_products", "full_citation", "ogbn_arxiv", "ogbn_products", "main_products", "main_citation")
"""Where an accuracy is looked for if no table is named: the full tables first, which the main ones repeat in part."""

Row = Mapping[str, str]


@dataclass(frozen=True)
class PaperNumber:
    """One number of the paper, in its own unit: percent for accuracies, similarities and overlap, seconds for times.

    Attributes:
        value: None where the paper has a word instead.
        word: ``OOM`` (out of memory) or ``OOT`` (not finished in 24 hours), else "".
        ci95: half width of its interval over 500 tasks, where it gives one.
    """

    value: float | None
    word: str
    ci95: float | None

    @property
    def shown(self) -> float | str:
        """The number, or the word in its place: what a table shows."""
        return self.word if self.value is None else self.value


@lru_cache
def paper_rows(file: str) -> tuple[Row, ...]:
    """The lines of one of ``FILES``, in the paper's order, as texts by column."""
    if file not in (*FILES, "origins"):
        raise OptionError(f"the paper's numbers have no file {file!r}; {did_you_mean(file, FILES)}")
    with (Path(__file__).parent / f"{file}.csv").open(newline="", encoding="utf-8") as lines:
        return tuple(csv.DictReader(lines))


@lru_cache
def _index(file: str, columns: tuple[str, ...]) -> dict[tuple[str, ...], Row]:
    return {tuple(row[column] for column in columns): row for row in paper_rows(file)}


def _number(file: str, column: str, key: Mapping[str, str | None]) -> PaperNumber | None:
    """The number in a column of the line with this key, if there is one; an error for an unknown table or figure."""
    for name in ("table", "figure", "what"):
        known = {row[name] for row in paper_rows(file)} if name in key else ()
        if known and key[name] not in known:
            raise OptionError(
                f"the paper's numbers have no {name} {key[name]!r} in {file}; {did_you_mean(key[name] or '', known)}"
            )
    row = _index(file, tuple(key)).get(tuple(value or "" for value in key.values()))
    if row is None:
        return None
    text, ci95 = row[column], row.get("ci95")
    word = text if text.isalpha() else ""
    return PaperNumber(None if word else float(text), word, float(ci95) if ci95 else None)


def paper_accuracy(
    dataset: str, method: str, episodes: str | None = None, way: int = 5, shot: int = 1, table: str | None = None
) -> PaperNumber | None:
    """The accuracy that the paper reports for a method in a setting; None where it has no such entry.

    Args:
        dataset: our name, a graph's name, a path or the paper's name.
        method: ours, e.g. ``naq-feat/protonet`` or ``bgrl``; with ``episodes`` the paper's, e.g. ``ProtoNet``.
        episodes: as in the table's column, e.g. ``NaQ-Feat``, ``-``, or ``NaQ-Feat jaccard`` in the metric ablation.
        table: a name of ``origins.csv``; None looks through the whole tables.
    """
    name, kind = (paper_method(method) if episodes is None else (method, episodes)) or (None, None)
    for title in WHOLE_TABLES if table is None else (table,):
        key = {"table": title, "dataset": paper_name(dataset), "method": name, "episodes": kind}
        found = _number("paper_tables", "accuracy", {**key, "way": str(way), "shot": str(shot)})
        if found is not None:
            return found
    return None


def paper_rank(dataset: str, method: str, episodes: str | None = None) -> PaperNumber | None:
    """The average rank in the main tables; ``Best of six`` with ``NaQ-Feat`` or ``NaQ-Diff`` are rows there."""
    name, kind = (paper_method(method) if episodes is None else (method, episodes)) or (None, None)
    return _number("paper_ranks", "avg_rank", {"dataset": paper_name(dataset), "method": name, "episodes": kind})


def paper_overlap(dataset: str, generator: str, way: int) -> PaperNumber | None:
    """Query overlap in percent for ``naq-feat`` or ``naq-diff``."""
    key = {"dataset": paper_name(dataset), "generator": paper_generator(generator), "way": str(way)}
    return _number("paper_overlap_ratio", "overlap_percent", key)


def paper_class_similarity(
    dataset: str, generator: str, tail_percent: int = 100, metric: str | None = None
) -> PaperNumber | None:
    """Class-level similarity in percent of nodes of the ``tail_percent`` smallest classes.

    Args:
        metric: None is the generator's own (cosine, or diffusion); ``neg-euclidean`` is in the metric ablation.
    """
    title, kind = "tail_classes" if metric is None else "metric_ablation", paper_generator(generator)
    key = {
        "table": title,
        "dataset": paper_name(dataset),
        "generator": kind,
        "metric": metric or {"NaQ-Feat": "cosine", "NaQ-Diff": "ppr"}.get(kind or ""),
        "top_p_tail_percent": str(tail_percent),
    }
    return _number("paper_class_similarity", "class_level_similarity_percent", key)


def paper_time(what: str, dataset: str, generator: str) -> PaperNumber | None:
    """Seconds of ``similarity``, ``episodes_16000`` or ``topk100_list``."""
    key = {"what": what, "dataset": paper_name(dataset), "generator": paper_generator(generator)}
    return _number("paper_times", "seconds", key)


def paper_figure(figure: str, dataset: str, method: str, condition: str) -> PaperNumber | None:
    """A bar of ``label_scarcity`` (``class80_label80``) or ``class_imbalance`` (``original``, ``pareto``, ``extreme``).

    ``method`` is ours, e.g. ``supervised/tent``, or the figure's, e.g. ``TENT``. Its NaQ is NaQ with ProtoNet.
    """
    shown = {"naq-feat/protonet": "NaQ-Feat", "naq-diff/protonet": "NaQ-Diff"}.get(method)
    if shown is None:
        ours = paper_method(method)
        shown = method if ours is None else "" if ours[1].startswith("NaQ") else ours[0]
    key = {"figure": figure, "dataset": paper_name(dataset), "method": shown, "condition": condition}
    return _number("paper_figures_digitised", "accuracy_approx", key)
