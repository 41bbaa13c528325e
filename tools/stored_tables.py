"""Tables and values of stored results that are no cells: tools/pages.py writes them into pages."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from statistics import mean
from typing import Any

from naq.heads import HEADS, in_reading_order
from naq_paper.experiments.analyses.practice import values_of
from naq_paper.experiments.captions import number
from naq_paper.experiments.experiment import Study
from naq_paper.experiments.names import full_name, learner_of
from naq_paper.experiments.paper import paper_rows
from naq_paper.experiments.request import BUDGETS
from naq_paper.report.export import MARKDOWN
from naq_paper.report.format import entry_text
from naq_paper.statistics import compare

Kept = Mapping[str, Any]
BEST, SMOOTH = (f"power against the {other} by points" for other in ("best", "baseline"))
SHARPENED = ", sharpened"
LINEAR = {
    "smooth": "`smooth`",
    "step 4": "closed form, scatter removed (steps 3 and 4)",
    "distance": "squared distance, learned scale; mutual neighbours",
    "cosine": "cosine, temperature 0.1; mutual neighbours",
    "feature": "squared distance, learned scale; neighbours by features",
}
"""Rows of benchmarks/results/linear_protonet.json: fixed maps, then trainings."""


def fill_values(text: str, values: Mapping[str, str]) -> str:
    """The page with every ``<!-- =NAME -->...<!-- / -->`` as its value; an error for a name without one."""
    return re.sub(r"(<!-- =(\S+) -->)[^<]*(<!-- / -->)", lambda it: f"{it[1]}{values[it[2]]}{it[3]}", text)


def percent(value: float, digits: int = 0) -> str:
    return f"{100 * value:.{digits}f}"


# Marks: benchmarks/results/significance.json


def simulated(kept: Kept) -> list[tuple[str, dict[str, Any]]]:
    return [(name, row) for name in ("paper", "default", "equal") for row in kept[name]["columns"]]


def significance_rows(kept: Kept) -> list[list[str]]:
    rows = []
    for name, row in simulated(kept):
        five, ten = (f"{percent(row[BEST][points])} / {percent(row[SMOOTH][points])} %" for points in ("5", "10"))
        errors = [f"{percent(row[key], 1)} %" for key in ("error", "error, own seeds, Satterthwaite")]
        counts = [str(row["methods"]), str(row["seeds"]), f"{row['repeats']:,}"]
        rows.append([name, *counts, *errors, five, ten, f"{row['detectable, points']:.1f} points"])
    return rows


def significance_level(kept: Kept) -> list[list[str]]:
    """By the number of methods: the share of columns with a false mark, and of true differences that are found."""
    rows = []
    for methods in sorted({row["methods"] for _, row in simulated(kept)}):
        own = [row for _, row in simulated(kept) if row["methods"] == methods]
        errors = [row["error"] for row in own]
        found = {seeds: [row[BEST]["10"] for row in own if row["seeds"] == seeds] for seeds in (3, 5)}
        shares = [f"{percent(min(part))} to {percent(max(part))} %" for part in found.values()]
        level = [f"{percent(mean(errors), 1)} %", f"{percent(min(errors), 1)} to {percent(max(errors), 1)} %"]
        rows.append([str(methods), *level, *shares])
    return rows


def power_values(kept: Kept) -> dict[str, str]:
    """Of thirty rows with the variances of the paper's profile: how often 10 points from the best are found."""
    thirty = {row["seeds"]: row[BEST]["10"] for row in kept["paper"]["columns"] if row["methods"] == 30}
    return {f"found-{seeds}": percent(share) for seeds, share in thirty.items()}


# docs/closed-form.md


def linear_title(label: str) -> str:
    plain = label.removesuffix(SHARPENED)
    kind, _, length = plain.partition(", ")
    return LINEAR[kind] + (f": {length}" if length else "") + (", then sharpened (step 5)" if label != plain else "")


def linear_rows(results: Sequence[Kept]) -> list[list[str]]:
    def shown(found: Kept) -> str:
        return f"{percent(found['accuracy'], 1)} {found['mark']} {found['against']}".rstrip()

    cells = {
        label: [r[shot][label] for r in results for shot in ("1-shot", "5-shot")] for label in results[0]["1-shot"]
    }
    return [[linear_title(label), *map(shown, found)] for label, found in cells.items()]


def decomposition_rows(kept: Kept) -> tuple[list[str], list[list[str]]]:
    """Heads and rows: mean accuracy in % at 1 / 5 labels by graph, and the average over graphs."""
    graphs = kept["graphs"]
    heads = ["1 / 5 labels in every class", *graphs, "average"]
    rows = []
    for method in next(iter(graphs.values())):
        by_graph = [[mean(found[method][shot]) for shot in ("1", "5")] for found in graphs.values()]
        cells = [*by_graph, [mean(column) for column in zip(*by_graph)]]
        rows.append([method, *(f"{one:.1f} / {five:.1f}" for one, five in cells)])
    return heads, rows


STEPS = {
    "TF-IDF": ("features as they are + logistic regression", "TF-IDF + logistic regression"),
    "smoothing": ("TF-IDF + logistic regression", "smoothed TF-IDF + logistic regression"),
    "closed form": ("smoothed TF-IDF + logistic regression", "closed form + logistic regression"),
    "class means instead of logistic regression": ("closed form + logistic regression", "closed form + class means"),
    "help of unlabelled nodes": ("closed form + class means", "closed form + class means with unlabelled nodes"),
    "all other views": ("closed form + class means with unlabelled nodes", "the classifier: all views"),
    "closed form, under class means with unlabelled nodes": (
        "smoothed TF-IDF + class means with unlabelled nodes",
        "closed form + class means with unlabelled nodes",
    ),
}
"""What each step of the table adds: from one row to another."""


def step_rows(kept: Kept) -> list[list[str]]:
    """Points that a step adds on average over the graphs, the least and the most, at 1 and at 5 labels."""
    rows = []
    for step, (before, after) in STEPS.items():
        cells = []
        for shot in ("1", "5"):
            gains = [mean(found[after][shot]) - mean(found[before][shot]) for found in kept["graphs"].values()]
            cells.append(f"{mean(gains):+.1f} ({min(gains):+.1f} to {max(gains):+.1f})")
        rows.append([step, *cells])
    return rows


# docs/choices.md

RELEASED = "nearest pairs, width 384, k 10, gamma 0.5, p 1.75"


def gains_text(one: Sequence[Sequence[float]]) -> str:
    return " / ".join(f"{gain:+.1f} ± {half:.1f}" for gain, half in one)


def form_rows(found: Mapping[str, Kept]) -> list[list[str]]:
    """A row per form, the largest mean gain first; the released one is bold."""

    def means(title: str) -> list[float]:
        return [mean(one[title][shot][0] for one in found.values()) for shot in (0, 1)]

    titles = [title for title in next(iter(found.values())) if all(title in one for one in found.values())]
    rows = []
    for title in sorted(titles, key=lambda title: -mean(means(title))):
        own = " / ".join(f"{gain:+.1f}" for gain in means(title))
        name = f"**{title}**" if title == RELEASED else title
        rows.append([name, own, *(gains_text(one[title]) for one in found.values())])
    return rows


def partner_rows(found: Mapping[str, Kept]) -> list[list[str]]:
    """Trained vectors alone, refined and beside the smoothed features, over naq-plus; and refined ones over alone."""
    rows = []
    for method, ways in next(iter(found.values())).items():
        for place, way in enumerate(ways):
            entries = [gains_text(one[method][way]["over naq-plus"]) for one in found.values()]
            rows.append([method if place == 0 else "", way, *entries])
        over = [gains_text(one[method]["refined"]["over alone"]) for one in found.values()]
        rows.append(["", "*refined, over alone*", *over])
    return rows


# docs/results.md


def given_rows(studies: Sequence[Study]) -> list[list[str]]:
    """What every method was given, from its cells: features, the longest training, the paper's, trainings that were
    cut."""
    paper = BUDGETS["paper"]
    rows: dict[str, list[Any]] = {}
    for study in studies:
        for key, group in study.groups.items():
            config = group.cells(study.find)[0].config
            epochs, episodes = (config["options"] or {}).get("epochs"), config.get("episodes")
            most, unit = epochs or episodes or 0, "epochs" if epochs else "episodes"
            whole = paper.epochs.get(learner_of(config["method"]), 0) if epochs else paper.episodes
            lengths = [f"at most {most:,} {unit}", f"at most {whole:,} {unit}"] if most else ["none", ""]
            row = rows.setdefault(key[0], [full_name(key[0]), config.get("features", "TF-IDF"), *lengths, []])
            for record in study.records(key):
                history = record.result and record.result["history"]
                row[4] += [history["steps"][-1] >= most] if history else []
    return [[*row[:4], f"{sum(row[4])} of {len(row[4])}" if row[4] else ""] for _, row in sorted(rows.items())]


def graph_sizes(studies: Sequence[Study]) -> dict[str, str]:
    """Nodes and classes by graph, as the results know them."""
    facts = {name: found for study in studies for name, found in study.request.facts.items()}
    nodes = {f"{name}-nodes": f"{found['nodes']:,}" for name, found in facts.items()}
    return nodes | {f"{name}-classes": str(found["classes"]) for name, found in facts.items()}


def per_class(studies: Sequence[Study]) -> str:
    """Mean accuracy per class in % of boosting on minesweeper with one label in every class."""
    (study,) = (study for study in studies if study.dataset == "minesweeper")
    return percent(mean(values_of(study.records("boosting"), (1, "equal"), "macro_accuracy")))


# docs/reproduction.md


def clothing_rows(study: Study) -> Iterator[list[str]]:
    """Every method under every head, on the paper's tasks and half of its graph."""
    methods = list(dict.fromkeys(key[0] for key in study.groups))
    for head in in_reading_order():
        found = study.scores(head)
        columns = [{m: found[m, (5, shot)] for m in methods if (m, (5, shot)) in found} for shot in (1, 5)]
        if not any(columns):
            continue
        standings = [compare(column, "smooth") for column in columns]
        for method in methods:
            numbers = [
                entry_text(number(column[method], standing[method]), MARKDOWN) if method in column else "–"
                for column, standing in zip(columns, standings)
            ]
            yield [f"`{method}`", head + (" (queries together)" if HEADS[head].transductive else ""), *numbers]


def clothing_values() -> dict[str, str]:
    """The best of the paper's whole table on the whole graph, by shot."""
    rows = [row for row in paper_rows("paper_tables") if row["table"] == "full_products" and row["way"] == "5"]
    own = [row for row in rows if row["dataset"] == "Amazon-Clothing"]
    best = {shot: max((r for r in own if r["shot"] == shot), key=lambda r: float(r["accuracy"])) for shot in ("1", "5")}
    return {f"paper-{s}": f"{r['accuracy']} ({r['method']}, {r['episodes']})" for s, r in best.items()}


def fuzz_values(kept: Kept) -> dict[str, str]:
    kills = sum(one["kills"] for one in kept["kills"].values())
    return {"fuzz-tried": f"{kept['tried']:,}", "fuzz-kinds": str(len(kept["kinds"])), "fuzz-kills": str(kills)}
