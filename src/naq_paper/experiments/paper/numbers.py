"""Looking up one of the paper's numbers."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from naq.errors import OptionError
from naq.options import nearest
from naq_paper.experiments.paper.names import paper_generator, paper_method, paper_name

FILES = (
    "paper_tables",
    "paper_ranks",
    "paper_class_similarity",
    "paper_overlap_ratio",
    "paper_times",
    "paper_figures_digitised",
)
WHOLE_TABLES = ("full_products", "full_citation", "ogbn_arxiv", "ogbn_products", "main_products", "main_citation")
"""Where an accuracy is looked for if no table is named: the full tables first, which the main ones repeat in part."""

Row = Mapping[str, str]


@dataclass(frozen=True)
class Origin:
    """Where a number stands in the paper.

    Attributes:
        table: the name of the table in our transcript.
        place: ``Table 15`` or ``Figure 1a``.
        label: the LaTeX label there.
        caption: in a few words.
    """

    table: str
    place: str
    label: str
    caption: str

    def __str__(self) -> str:
        return f"{self.place}: {self.caption}"


@dataclass(frozen=True)
class PaperNumber:
    """One number of the paper, in its own unit: percent for accuracies, similarities and overlap, seconds for times.

    Attributes:
        value: None where the paper has a word instead.
        word: ``OOM`` (out of memory) or ``OOT`` (not finished in 24 hours), else "".
        ci95: half width of its interval over 500 tasks, where it gives one.
        approximate: read off a picture.
    """

    value: float | None
    word: str
    ci95: float | None
    origin: Origin
    approximate: bool = False

    @property
    def shown(self) -> float | str:
        """The number, or the word in its place: what a table shows."""
        return self.word if self.value is None else self.value


@lru_cache
def paper_rows(file: str) -> tuple[Row, ...]:
    """The lines of one of ``FILES``, in the paper's order, as texts by column."""
    if file not in FILES:
        raise OptionError(f"the paper's numbers have no file {file!r}; {nearest(file, FILES)}")
    return _read(file)


def _read(file: str) -> tuple[Row, ...]:
    with (Path(__file__).parent / f"{file}.csv").open(newline="", encoding="utf-8") as lines:
        return tuple(csv.DictReader(lines))


@lru_cache
def _origins() -> dict[tuple[str, str, str], Origin]:
    return {
        (row["file"], row["table"], row["dataset"]): Origin(row["table"], row["place"], row["label"], row["caption"])
        for row in _read("origins")
    }


def paper_origin(file: str, table: str = "", dataset: str = "") -> Origin:
    """Where a table of one of ``FILES`` stands; ``dataset`` is the paper's name and matters where it spread one over two tables."""
    _check_table(file, table)
    found = _origins().get((file, table, dataset)) or _origins().get((file, table, ""))
    if found is None:
        raise OptionError(f"the paper's table {table} has no dataset {dataset!r}; give one of its datasets.")
    return found


def _check_table(file: str, table: str) -> None:
    known = {name for stem, name, _ in _origins() if stem == file}
    if table not in known:
        raise OptionError(f"the paper's numbers have no table {table!r} in {file}; {nearest(table, known)}")


@lru_cache
def _index(file: str, columns: tuple[str, ...]) -> dict[tuple[str, ...], Row]:
    return {tuple(row[column] for column in columns): row for row in paper_rows(file)}


def paper_accuracy(
    dataset: str, method: str, episodes: str | None = None, way: int = 5, shot: int = 1, table: str | None = None
) -> PaperNumber | None:
    """The accuracy that the paper reports for a method in a setting; None where it has no such entry.

    Args:
        dataset: our name, a graph's name, a path or the paper's name.
        method: ours, e.g. ``naq-feat/protonet`` or ``bgrl``; with ``episodes`` the paper's, e.g. ``ProtoNet`` or ``Best of six``.
        episodes: as in the table's column, e.g. ``NaQ-Feat``, ``-``, or ``NaQ-Feat jaccard`` in the metric ablation.
        table: a name of ``origins.csv``; None looks through the whole tables.
    """
    name = paper_name(dataset)
    found = paper_method(method) if episodes is None else (method, episodes)
    if table is not None:
        _check_table("paper_tables", table)
    if name is None or found is None:
        return None
    index = _index("paper_tables", ("table", "dataset", "method", "episodes", "way", "shot"))
    for title in WHOLE_TABLES if table is None else (table,):
        row = index.get((title, name, *found, str(way), str(shot)))
        if row is not None:
            return _number(row["accuracy"], paper_origin("paper_tables", title, name), row["ci95"])
    return None


def paper_rank(dataset: str, method: str, episodes: str | None = None) -> PaperNumber | None:
    """The average rank in the main tables; ``Best of six`` with episodes ``NaQ-Feat`` or ``NaQ-Diff`` are the paper's own rows."""
    name = paper_name(dataset)
    found = paper_method(method) if episodes is None else (method, episodes)
    row = _index("paper_ranks", ("dataset", "method", "episodes")).get((name or "", *(found or ())))
    return None if row is None else _number(row["avg_rank"], paper_origin("paper_ranks", row["table"]))


def paper_overlap(dataset: str, generator: str, way: int) -> PaperNumber | None:
    """Query overlap in percent for ``naq-feat`` or ``naq-diff``."""
    key = (paper_name(dataset) or "", paper_generator(generator) or "", str(way))
    row = _index("paper_overlap_ratio", ("dataset", "generator", "way")).get(key)
    return None if row is None else _number(row["overlap_percent"], paper_origin("paper_overlap_ratio"))


def paper_class_similarity(
    dataset: str, generator: str, tail_percent: int = 100, metric: str | None = None
) -> PaperNumber | None:
    """Class-level similarity in percent of nodes of the ``tail_percent`` smallest classes.

    Args:
        metric: None is the generator's own (cosine, or diffusion); ``neg-euclidean`` is in the metric ablation.
    """
    title = "tail_classes" if metric is None else "metric_ablation"
    own = {"NaQ-Feat": "cosine", "NaQ-Diff": "ppr"}.get(paper_generator(generator) or "", "")
    key = (title, paper_name(dataset) or "", paper_generator(generator) or "", metric or own, str(tail_percent))
    columns = ("table", "dataset", "generator", "metric", "top_p_tail_percent")
    row = _index("paper_class_similarity", columns).get(key)
    if row is None:
        return None
    return _number(row["class_level_similarity_percent"], paper_origin("paper_class_similarity", title))


def paper_time(what: str, dataset: str, generator: str) -> PaperNumber | None:
    """Seconds of ``similarity``, ``episodes_16000`` or ``topk100_list``."""
    name = paper_name(dataset) or ""
    origin = paper_origin("paper_times", what, name)
    row = _index("paper_times", ("what", "dataset", "generator")).get((what, name, paper_generator(generator) or ""))
    return None if row is None else _number(row["seconds"], origin)


def paper_figure(figure: str, dataset: str, method: str, condition: str) -> PaperNumber | None:
    """A bar of ``label_scarcity`` (conditions ``class80_label80``) or ``class_imbalance`` (``original``, ``pareto``, ``extreme``).

    ``method`` is ours, e.g. ``supervised/tent``, or the figure's, e.g. ``TENT``. NaQ stands for NaQ with ProtoNet there.
    """
    origin = paper_origin("paper_figures_digitised", figure)
    shown = {"naq-feat/protonet": "NaQ-Feat", "naq-diff/protonet": "NaQ-Diff"}.get(method)
    if shown is None:
        ours = paper_method(method)
        shown = method if ours is None else "" if ours[1].startswith("NaQ") else ours[0]
    key = (figure, paper_name(dataset) or "", shown, condition)
    row = _index("paper_figures_digitised", ("figure", "dataset", "method", "condition")).get(key)
    return None if row is None else _number(row["accuracy_approx"], origin, approximate=True)


def _number(text: str, origin: Origin, ci95: str = "", *, approximate: bool = False) -> PaperNumber:
    word = text if text.isalpha() else ""
    return PaperNumber(None if word else float(text), word, float(ci95) if ci95 else None, origin, approximate)
