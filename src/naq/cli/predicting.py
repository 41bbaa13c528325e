"""``naq predict`` and ``naq suggest``: classes for every node of one's own graph, and what to label next."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option, echo

from naq.cli.arguments import (
    ClassFile,
    Device,
    GraphName,
    Ignore,
    Label,
    LabelFile,
    MethodName,
    NoCache,
    Nodes,
    Seed,
    TextEncoder,
    check_outputs,
)  # fmt: skip
from naq.cli.inspecting import Address, Engine, Shards, Workers
from naq.errors import OptionError, plain, warn
from naq.io.readers import find_reader
from naq.options import imported

if TYPE_CHECKING:
    from naq.classifier import FewShotNodeClassifier, Labels
    from naq.graph import Graph


def predict_command(
    graph: GraphName,
    out: Annotated[Path, Option(help="CSV or Parquet file, one row per node; of a folder of parts, a folder.")],
    labels: LabelFile = None,
    classes: ClassFile = None,
    nodes: Nodes = None,
    label: Label = None,
    ignore: Ignore = [],  # noqa: B006
    new: Annotated[Path | None, Option(help="Table of nodes that come later: only these are written.")] = None,
    edges: Annotated[Path | None, Option(help="Table of edges of the nodes of --new.")] = None,
    text_encoder: TextEncoder = None,
    method: MethodName = "naq-plus",
    unknown: Annotated[bool, Option("--unknown", help="Nodes may belong to none of the classes.")] = False,
    level: Annotated[float, Option(help="Share of the nodes whose prediction set shall hold the class.")] = 0.9,
    seed: Seed = 0,
    device: Device = "cpu",
    no_cache: NoCache = False,
    report: Annotated[Path | None, Option(help="HTML page to write: classes and how far to trust them.")] = None,
    as_json: Annotated[bool, Option("--json", help="Print the summary as JSON.")] = False,
    engine: Engine = "local",
    workers: Workers = 2,
    address: Address = None,
    shards: Shards = None,
) -> None:
    """Name the class of every node from a few labels, or where nodes have text from the names of the classes alone.

    Writes a table and prints what to expect of it.

    A cell of the table that starts with = + - @ gets an apostrophe, so that no spreadsheet computes it.
    """
    if _predicted_by_reader(dict(locals())):
        return
    from naq.classifier import with_rows, write_predictions
    from naq.cli.terminal import shell_line, show_progress, shown_warnings

    files = {"--nodes": nodes, "--labels": labels, "--classes": classes}
    inputs = {"the graph": Path(graph), **files, "--new": new, "--edges": edges}
    check_outputs({"--out": out, "--report": report}, inputs, also=".parquet")
    if not 0 < level < 1:
        raise OptionError(f"--level is {level:g}; expected a share above 0 and below 1, e.g. 0.9.")
    if edges is not None and new is None:
        raise OptionError("--edges are of the nodes of --new, which is not given; give it too.")
    loaded, given, named = read_inputs(graph, nodes, labels, label, ignore, classes, text_encoder, needed=True)
    larger = loaded
    if new is not None:
        with shown_warnings(str(new)):
            larger = with_rows(loaded, new, edges)
        larger = larger if edges is not None else larger.without_edges()
    options = {"unknown": unknown, "seed": seed, "device": device}
    classifier = fit_classifier(loaded, given, named, method, no_cache, **options)
    classifier = classifier if new is None else classifier.extend(larger, only_new=True)
    with show_progress(str(out)) as listener:
        listener("write", {})
        write_predictions(classifier, out, level)
    facts = summary_of(classifier, level) | {"written": str(out)}
    if report is not None:
        from naq.classifier.page import write_report

        write_report(classifier, report, level, shlex.join(["naq", *sys.argv[1:]]))
        facts["report"] = str(report)
    if as_json:
        echo(json.dumps(facts, indent=2))
        return
    print_summary(facts)
    written = str(out) if new is None else f"{out} ({larger.num_nodes - loaded.num_nodes:,} new nodes)"
    echo(f"Written: {written}" + ("" if report is None else f", {report}"))
    again = files | {"--label": label, "--text-encoder": text_encoder, "--ignore": ignore}
    echo(f"Next:\n  {plain(shell_line('suggest', graph, again), 4000)}      (what to label next)")


def _predicted_by_reader(options: Mapping[str, Any]) -> bool:
    """Whether the graph's reader predicts itself, as that of folders of Parquet parts, and has done so."""
    reader = find_reader(Path(options["graph"]))
    if reader is not None and reader.predictor:
        imported(reader.predictor)(**options)
        return True
    if [options[name] for name in ("engine", "workers", "address", "shards")] != ["local", 2, None, None]:
        raise OptionError("--engine, --workers, --address and --shards are for folders of Parquet parts.")
    return False


def suggest_command(
    graph: GraphName,
    nodes: Nodes = None,
    labels: LabelFile = None,
    k: Annotated[int, Option("-k", help="Nodes to suggest.")] = 10,
    out: Annotated[Path | None, Option(help="CSV or Parquet file with an empty column class to fill in.")] = None,
    method: MethodName = "naq-plus",
    seed: Seed = 0,
    device: Device = "cpu",
    no_cache: NoCache = False,
    classes: ClassFile = None,
    label: Label = None,
    ignore: Ignore = [],  # noqa: B006
    text_encoder: TextEncoder = None,
    as_json: Annotated[bool, Option("--json", help="Print the nodes as JSON.")] = False,
) -> None:
    """Say which nodes to label next: those that stand for many others, and those between two classes."""
    from naq.classifier.labels import node_name
    from naq.classifier.table import node_texts, write_columns

    files = {"the graph": Path(graph), "--nodes": nodes, "--labels": labels, "--classes": classes}
    check_outputs({"--out": out}, files, also=".parquet")
    loaded, given, named = read_inputs(graph, nodes, labels, label, ignore, classes, text_encoder)
    classifier = fit_classifier(loaded, given, named, method, no_cache, seed=seed, device=device)
    chosen = classifier.suggest(k)
    known = given is not None or named is not None
    columns: dict[str, list[Any]] = {"node": [node_name(loaded, node) for node in chosen.tolist()]}
    columns["likely"] = classifier.predict()[chosen].tolist() if known else [None] * len(chosen)
    columns |= node_texts(loaded, chosen.tolist())
    if out is not None:
        write_columns(out, {"node": [], "class": [None] * len(chosen)} | columns, loaded)
    rows = [dict(zip(columns, row)) for row in zip(*columns.values())]
    if as_json:
        echo(json.dumps(rows, indent=2))
        return
    for row in rows:
        guess = "" if row["likely"] is None else f"(likely {row['likely']})"
        words = (row["node"], row.get("name"), guess, row.get("text"))
        echo(plain("  ".join(filter(None, words)), 200))
    if out is not None:
        echo(f"Written: {out}; fill in the column class.")


def check_command(
    graph: GraphName,
    labels: LabelFile = None,
    nodes: Nodes = None,
    label: Label = None,
    ignore: Ignore = [],  # noqa: B006
    out: Annotated[Path | None, Option(help="CSV or Parquet file: every doubtful label.")] = None,
    k: Annotated[int, Option("-k", help="Labels to show.")] = 20,
    method: MethodName = "naq-plus",
    seed: Seed = 0,
    device: Device = "cpu",
    no_cache: NoCache = False,
    as_json: Annotated[bool, Option("--json", help="Print all of them as JSON.")] = False,
) -> None:
    """Show labels that all else contradicts, the most doubtful first, with the class that is meant instead."""
    from naq.classifier.labels import node_name
    from naq.classifier.table import write_columns
    from naq.cli.terminal import print_table
    from naq.options import check_whole

    check_whole("k", k)
    check_outputs({"--out": out}, {"the graph": Path(graph), "--nodes": nodes, "--labels": labels}, also=".parquet")
    loaded, given, _ = read_inputs(graph, nodes, labels, label, ignore, every=True, needed=True)
    classifier = fit_classifier(loaded, given, None, method, no_cache, seed=seed, device=device)
    found = classifier.prediction()
    doubts = found.doubtful_labels()
    columns = ("node", "class", "probability", "rather", "rather_probability")
    rows = [
        (node_name(loaded, one.node), one.given, one.given_probability, one.instead, one.instead_probability)
        for one in doubts
    ]
    if out is not None:
        write_columns(out, dict(zip(columns, zip(*rows))) if rows else dict.fromkeys(columns, ()), loaded)
    if as_json:
        echo(json.dumps([dict(zip(columns, row)) for row in rows], indent=2))
        return
    usable = int(found.has_other_labels.sum())
    echo(f"{len(rows):,} of {usable:,} labels are doubtful: left out, another class is likelier.")
    if usable < len(found.labels.nodes):
        echo(f"{len(found.labels.nodes) - usable:,} more are the only one of their class and cannot be left out.")
    if rows:
        titles = [column.replace("_", " ") for column in columns]
        shown = [
            (loaded.title_of(one.node), str(given), f"{sure:.0%}", str(instead), f"{other:.0%}")
            for one, (_, given, sure, instead, other) in zip(doubts, rows[:k])
        ]
        print_table(titles, shown, numbers=titles[2::2])
    if out is not None:
        echo(f"Written: {out}")


def read_inputs(
    source: str, nodes: Path | None, path: Path | None, label: str | None, ignore: list[str],
    classes: Path | None = None, text_encoder: str | None = None, *, every: bool = False, needed: bool = False,
) -> tuple[Graph, Labels | None, dict[str, str] | None]:  # fmt: skip
    """The graph, labels, and the names of classes; checked before anything takes long.

    Labels are those of a file, else of the column ``label``, else, without names of classes, those that the graph has:
    of some nodes, or where ``every`` is set of all. Labels that come alone are of two classes at least. Warns of a
    column that tells the classes alone."""
    import numpy as np

    from naq.classifier.labels import Labels, check_enough, check_one_class, read_labels
    from naq.classifier.names import read_classes
    from naq.cli.terminal import load_shown, shown_warnings
    from naq.io.tables.features import class_columns

    graph = load_shown(source, nodes, text_encoder, label, ignore)
    named = None if classes is None else read_classes(classes)
    with shown_warnings(str(path or source)):
        if path is not None:
            found = read_labels(path, graph)
            for note in class_columns(graph, found.nodes, found.values):
                warn(note, stacklevel=1)
        else:
            known = np.flatnonzero([] if graph.labels is None else graph.labels >= 0)
            few = graph.num_classes < (1 if needed or label is not None else 2)
            whole = len(known) == graph.num_nodes and label is None and not every
            if graph.labels is None or few or whole or (label is None and named is not None):
                if needed and named is None:
                    why = f"{'every' if whole else 'no'} node of the graph has a class"
                    raise OptionError(
                        f"there are neither --labels nor --classes, and {why}; give some nodes' "
                        "classes, or their column by --label."
                    )
                return graph, None, named
            values = graph.labels[known] if graph.class_names is None else graph.class_names[graph.labels[known]]
            check_one_class(values.tolist())
            found = Labels.of(known, values.tolist())
            if label is None:
                warn(f"the labels are the graph's own: {len(known):,} of {graph.num_nodes:,} nodes", stacklevel=1)
    return graph, check_enough(found, f"{path or label or source}: ") if named is None else found, named


def fit_classifier(
    graph: Graph, labels: Labels | None, classes: dict[str, str] | None, method: str, no_cache: bool, **options: Any
) -> FewShotNodeClassifier:
    from naq.classifier import FewShotNodeClassifier
    from naq.classifier.storage import fit_kept
    from naq.cli.terminal import show_progress

    classifier = FewShotNodeClassifier(method, **options)
    with show_progress(graph.name) as listener:
        listener("embed", {"method": method})
        return classifier.fit(graph, labels, classes) if no_cache else fit_kept(classifier, graph, labels, classes)


def summary_of(classifier: FewShotNodeClassifier, level: float) -> dict[str, Any]:
    from naq.classifier.page import class_rows, verdicts
    from naq.classifier.views import describe

    found = classifier.prediction()
    expected = found.expected if len(found.free) else None
    return {
        "graph": classifier.graph_.name,
        "nodes": len(found.probabilities) - found.first,
        "classes": [
            {"class": row.name, "labels": row.labels, "nodes": row.nodes, "mean_probability": row.probability}
            for row in class_rows(found)
        ],
        "unknown": 0 if found.outside is None else int(found.outside[found.first :].sum()),
        "expected_accuracy": None if expected is None else asdict(expected) | {"text": str(expected)},
        "views": {describe(name): weight for name, weight in found.view_weights().items()},
        "verdicts": verdicts(found),
        "prediction_set_size": float(found.sets(level)[found.first :].sum(axis=1).mean()),
        "level": level,
        "chosen": classifier.explain(found),
    }


def print_summary(facts: dict[str, Any]) -> None:
    from naq.cli.terminal import print_table

    columns, rows = ("class", "labels", "nodes", "mean probability"), []
    for row in sorted(facts["classes"], key=lambda row: -row["nodes"]):
        sure = "" if row["mean_probability"] is None else f"{100 * row['mean_probability']:.0f} %"
        rows.append((str(row["class"]), f"{row['labels']:,}", f"{row['nodes']:,}", sure))
    if facts["unknown"]:
        rows.append(("(none of them)", "", f"{facts['unknown']:,}", ""))
    print_table(
        columns,
        rows,
        title=f"{facts['graph']}: {facts['nodes']:,} {'node' if facts['nodes'] == 1 else 'nodes'}",
        numbers=columns[1:],
    )
    if facts["expected_accuracy"] is None:
        echo("Every node has a label, so there is no accuracy to expect.")
    else:
        echo(f"Expected accuracy: {facts['expected_accuracy']['text']}.")
    for verdict in facts["verdicts"]:
        echo(f"Note: {verdict}.")
    views = [(name, f"{100 * weight:.0f} %", "\u2588" * round(30 * weight)) for name, weight in facts["views"].items()]
    print_table(("view", "weight", ""), views, title="What decides", header=False)
    if "level" in facts:
        level, size = 100 * facts["level"], facts["prediction_set_size"]
        echo(f"Prediction sets at {level:.0f} %: {size:.1f} classes on average.")
