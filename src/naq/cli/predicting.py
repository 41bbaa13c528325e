"""``naq predict`` and ``naq suggest``: classes for every node of one's own graph, and what to label next."""

from __future__ import annotations

import json
import shlex
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option, echo

from naq.cli.checking import check_outputs
from naq.errors import OptionError, plain, warn

if TYPE_CHECKING:
    from naq.classifier import FewShotNodeClassifier, Labels
    from naq.graph import Graph

GraphName = Annotated[
    str,
    Argument(
        help="A graph file, an edge list (.csv, .tsv, .txt, .parquet, .graphml), or a name of 'naq list datasets'."
    ),
]
Nodes = Annotated[Path | None, Option(help="Table of nodes, where the graph is an edge list.")]
LabelFile = Annotated[Path | None, Option(help="CSV with the columns node and class: names or numbers of some nodes.")]
ClassFile = Annotated[
    Path | None, Option("--classes", help="Text file: a class per line, and after a comma what it is about.")
]
TextEncoder = Annotated[
    str | None, Option(help="Text also as sentence vectors: a model of sentence-transformers, by folder or name.")
]
Label = Annotated[str | None, Option(help="Column of nodes: classes; labels, where no --labels are given.")]
Ignore = Annotated[list[str], Option(help="Column of nodes that is not read; may be repeated.")]
MethodName = Annotated[str, Option("--method", "-m", help="A name of 'naq list methods' that needs no labels.")]
Device = Annotated[str, Option(help="cpu or cuda.")]
Seed = Annotated[int, Option(help="Of whatever the method draws.")]


def predict_command(
    graph: GraphName,
    out: Annotated[Path, Option(help="CSV to write, one line per node.")],
    labels: LabelFile = None,
    classes: ClassFile = None,
    nodes: Nodes = None,
    label: Label = None,
    ignore: Ignore = [],  # noqa: B006
    text_encoder: TextEncoder = None,
    method: MethodName = "naq-plus",
    unknown: Annotated[bool, Option("--unknown", help="Nodes may belong to none of the classes.")] = False,
    level: Annotated[float, Option(help="Share of the nodes whose prediction set shall hold the class.")] = 0.9,
    seed: Seed = 0,
    device: Device = "cpu",
    report: Annotated[Path | None, Option(help="HTML page to write: classes and how far to trust them.")] = None,
    as_json: Annotated[bool, Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Name the class of every node from a few labels, or from the names of the classes alone where nodes have text; write
    a table and print what to expect of it.

    A cell of the table that starts with = + - @ gets an apostrophe, so that no spreadsheet computes it.
    """
    from naq.classifier import write_predictions
    from naq.cli.progress import show_progress

    files = {"--nodes": nodes, "--labels": labels, "--classes": classes}
    check_outputs({"--out": out, "--report": report}, {"the graph": Path(graph), **files})
    if labels is None and classes is None and label is None:
        raise OptionError("there are neither --labels nor --classes; give some nodes' classes, or the names of all.")
    if not 0 < level < 1:
        raise OptionError(f"--level is {level:g}; expected a share above 0 and below 1, e.g. 0.9.")
    loaded, given, named = _read(graph, nodes, labels, label, ignore, classes, text_encoder)
    classifier = _fitted(loaded, given, named, method, unknown=unknown, seed=seed, device=device)
    with show_progress(str(out)) as listener:
        listener("write", {})
        write_predictions(classifier, out, level)
    facts = _summary(classifier, level) | {"written": str(out)}
    options = files | {"--label": label, "--text-encoder": text_encoder}
    read_from = [word for name, value in options.items() if value is not None for word in (name, str(value))]
    read_from += [word for one in ignore for word in ("--ignore", one)]
    if report is not None:
        from naq.classifier.page import write_report

        words = ["naq", "predict", graph, *read_from, "--out", str(out), "--report", str(report)]
        for name, value, usual in (("--method", method, "naq-plus"), ("--level", level, 0.9), ("--seed", seed, 0)):
            words += [] if value == usual else [name, str(value)]
        write_report(classifier, report, level, shlex.join(words + (["--unknown"] if unknown else [])))
        facts["report"] = str(report)
    if as_json:
        echo(json.dumps(facts, indent=2))
        return
    _print_summary(facts)
    echo(f"Written: {out}" + ("" if report is None else f", {report}"))
    again = shlex.join(["naq", "suggest", graph, *read_from])
    echo(f"Next:\n  {plain(again, 4000)}      (what to label next)")


def suggest_command(
    graph: GraphName,
    nodes: Nodes = None,
    labels: LabelFile = None,
    k: Annotated[int, Option("-k", help="Nodes to suggest.")] = 10,
    out: Annotated[Path | None, Option(help="CSV to write, with an empty column class to fill in.")] = None,
    method: MethodName = "naq-plus",
    seed: Seed = 0,
    device: Device = "cpu",
    classes: ClassFile = None,
    label: Label = None,
    ignore: Ignore = [],  # noqa: B006
    text_encoder: TextEncoder = None,
    as_json: Annotated[bool, Option("--json", help="Print the nodes as JSON.")] = False,
) -> None:
    """Say which nodes to label next: those that stand for many others, and those between two classes."""
    from naq.classifier.labels import node_name
    from naq.classifier.table import shown, write_rows

    files = {"the graph": Path(graph), "--nodes": nodes, "--labels": labels, "--classes": classes}
    check_outputs({"--out": out}, files)
    loaded, given, named = _read(graph, nodes, labels, label, ignore, classes, text_encoder)
    classifier = _fitted(loaded, given, named, method, seed=seed, device=device)
    chosen = classifier.suggest(k)
    known = given is not None or named is not None
    likely: list[Any] = classifier.predict()[chosen].tolist() if known else [None] * len(chosen)
    rows: list[dict[str, Any]] = [
        {"node": node_name(loaded, node), "likely": guess, **shown(loaded, node)}
        for node, guess in zip(chosen.tolist(), likely)
    ]
    if out is not None:
        columns = ["node", "class", *list(rows[0])[1:]]
        write_rows(out, columns, [[row.get(column, "") for column in columns] for row in rows])
    if as_json:
        echo(json.dumps(rows, indent=2))
        return
    for row in rows:
        guess = "" if row["likely"] is None else f"(likely {row['likely']})"
        told = (row["node"], row.get("name"), guess, row.get("text"))
        echo(plain("  ".join(filter(None, told)), 200))
    if out is not None:
        echo(f"Written: {out}; fill in the column class.")


def check_command(
    graph: GraphName,
    labels: LabelFile = None,
    nodes: Nodes = None,
    label: Label = None,
    ignore: Ignore = [],  # noqa: B006
    out: Annotated[Path | None, Option(help="CSV to write: every doubtful label.")] = None,
    k: Annotated[int, Option("-k", help="Labels to show.")] = 20,
    method: MethodName = "naq-plus",
    seed: Seed = 0,
    device: Device = "cpu",
    as_json: Annotated[bool, Option("--json", help="Print all of them as JSON.")] = False,
) -> None:
    """Show labels that all else contradicts, the most doubtful first, with the class that is meant instead."""
    from rich.table import Column, Table
    from rich.text import Text

    from naq.classifier.labels import node_name
    from naq.classifier.table import write_rows
    from naq.cli.table import print_table
    from naq.options import check_whole

    check_whole("k", k)
    check_outputs({"--out": out}, {"the graph": Path(graph), "--nodes": nodes, "--labels": labels})
    if labels is None and label is None:
        raise OptionError("there are neither --labels nor --label; give some nodes' classes.")
    loaded, given, _ = _read(graph, nodes, labels, label, ignore)
    classifier = _fitted(loaded, given, None, method, seed=seed, device=device)
    found = classifier.prediction()
    doubts = found.doubtful_labels()
    columns = ("node", "class", "probability", "rather", "rather_probability")
    rows = [
        (node_name(loaded, one.node), one.given, one.given_probability, one.instead, one.instead_probability)
        for one in doubts
    ]
    if out is not None:
        write_rows(out, columns, rows)
    if as_json:
        echo(json.dumps([dict(zip(columns, row)) for row in rows], indent=2))
        return
    told = int(found.told.sum())
    echo(f"{len(rows):,} of {told:,} labels are doubtful: left out, another class is likelier.")
    if told < len(found.labels.nodes):
        echo(f"{len(found.labels.nodes) - told:,} more are the only one of their class and cannot be left out.")
    table = Table(*columns[:2], *(Column(title.replace("_", " "), justify="right") for title in columns[2:]))
    for one, (_, given, sure, instead, other) in zip(doubts, rows[:k]):
        table.add_row(
            Text(plain(loaded.title_of(one.node), 80)), Text(plain(str(given), 60)), f"{100 * sure:.0f} %", Text(plain(str(instead), 60)),
            f"{100 * other:.0f} %",
        )  # fmt: skip
    if rows:
        print_table(table)
    if out is not None:
        echo(f"Written: {out}")


def _read(
    source: str, nodes: Path | None, path: Path | None, label: str | None, ignore: list[str],
    classes: Path | None = None, text_encoder: str | None = None,
) -> tuple[Graph, Labels | None, dict[str, str] | None]:  # fmt: skip
    """The graph, the labels of a file or of a column, of two classes at least if they come alone, and the names of classes;
    checked before anything takes long. A column that tells the classes alone is said."""
    from naq.classifier.labels import Labels, check_enough, read_labels
    from naq.classifier.names import read_classes
    from naq.cli.progress import load_shown, shown_warnings
    from naq.io.tables.features import class_columns

    graph = load_shown(source, nodes, text_encoder, label, ignore)
    named = None if classes is None else read_classes(classes)
    if path is not None:
        with shown_warnings(str(path)):
            found = read_labels(path, graph)
            for note in class_columns(graph, found.nodes, found.values):
                warn(note, stacklevel=1)
    elif label is not None and graph.labels is not None and graph.class_names is not None:
        known = (graph.labels >= 0).nonzero()[0]
        found = Labels.of(known, graph.class_names[graph.labels[known]].tolist())
    else:
        return graph, None, named
    return graph, check_enough(found, f"{path or label}: ") if named is None else found, named


def _fitted(
    graph: Graph, labels: Labels | None, classes: dict[str, str] | None, method: str, **options: Any
) -> FewShotNodeClassifier:
    from naq.classifier import FewShotNodeClassifier
    from naq.cli.progress import show_progress
    from naq.device import checked_device

    checked_device(options["device"])
    with show_progress(graph.name) as listener:
        listener("embed", {"method": method})
        return FewShotNodeClassifier(method, **options).fit(graph, labels, classes)


def _summary(classifier: FewShotNodeClassifier, level: float) -> dict[str, Any]:
    from naq.classifier.page import class_rows
    from naq.classifier.views import describe

    found = classifier.prediction()
    expected = found.expected if len(found.free) else None
    return {
        "graph": classifier.graph_.name,
        "nodes": len(found.probabilities),
        "classes": [
            {"class": row.name, "labels": row.labels, "nodes": row.nodes, "mean_probability": row.probability}
            for row in class_rows(found)
        ],
        "unknown": 0 if found.nowhere is None else int(found.nowhere.sum()),
        "expected_accuracy": None if expected is None else asdict(expected) | {"text": str(expected)},
        "views": {describe(name): weight for name, weight in found.view_weights().items()},
        "verdicts": found.verdicts(),
        "prediction_set_size": float(found.sets(level).sum(axis=1).mean()),
        "level": level,
        "chosen": classifier.explain(found),
    }


def _print_summary(facts: dict[str, Any]) -> None:
    from rich.table import Table
    from rich.text import Text

    from naq.cli.table import print_table

    table = Table(title=Text(f"{plain(facts['graph'], 80)}: {facts['nodes']:,} nodes"))
    table.add_column("class")
    for title in ("labels", "nodes", "mean probability"):
        table.add_column(title, justify="right")
    for row in sorted(facts["classes"], key=lambda row: -row["nodes"]):
        sure = "" if row["mean_probability"] is None else f"{100 * row['mean_probability']:.0f} %"
        table.add_row(Text(plain(str(row["class"]), 80)), f"{row['labels']:,}", f"{row['nodes']:,}", sure)
    if facts["unknown"]:
        table.add_row("(none of them)", "", f"{facts['unknown']:,}", "")
    print_table(table)
    if facts["expected_accuracy"] is None:
        echo("Every node has a label, so there is no accuracy to expect.")
    else:
        echo(f"Expected accuracy: {facts['expected_accuracy']['text']}.")
    for verdict in facts["verdicts"]:
        echo(f"Note: {verdict}.")
    views = Table(title="What decides", show_header=False)
    for title, weight in facts["views"].items():
        views.add_row(Text(plain(title, 80)), f"{100 * weight:.0f} %", "\u2588" * round(30 * weight))
    print_table(views)
    level, size = 100 * facts["level"], facts["prediction_set_size"]
    echo(f"Prediction sets at {level:.0f} %: {size:.1f} classes on average.")
    echo(f"Chosen: {facts['chosen']}")
