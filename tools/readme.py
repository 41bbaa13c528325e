"""Write measured numbers into README.md (the table of practice) and docs/results.md (the rest: the demo, the closed form beside trained methods with its picture, all methods, the report's answers, ``make bench``).

python tools/readme.py            from runs/demo, docs/reproduction and the files in benchmarks/results
python tools/readme.py --check    fail if the two files differ from them
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from first_table import draw_first, first_lines, first_table
from naq.cli.running import DEFAULT_METHODS
from practice_page import readme_table

ROOT = Path(__file__).resolve().parents[1]
README, PAGE = ROOT / "README.md", ROOT / "docs" / "results.md"
RESULTS = ROOT / "benchmarks" / "results"
TABLES = ROOT / "docs" / "reproduction" / "tables"
DEMO = ROOT / "runs" / "demo"
PICTURE = ROOT / "docs" / "accuracy.png"


def figures_table(results: dict[str, Any]) -> str:
    """Every figure with its target, the paper's code and the ratio."""
    lines = ["| | measured | target | paper's code | ratio |", "|---|---|---|---|---|"]
    for group in ("tables", "episodes", "step", "evaluation", "protocol", "accuracy", "smooth", "overlap"):
        for figure in results.get(group, {}).get("figures", []):
            unit, value = figure["unit"], figure["value"]
            paper = "" if figure["paper"] is None else f"{figure['paper']:,g} {unit}"
            ratio = f"{figure['paper'] / value:,.0f}x" if figure["paper"] and unit in ("s", "ms") else ""
            shown = f"{value:,.3f}" if value < 1 else f"{value:,.2f}"
            missed = "" if figure["reached"] else " (missed)"
            lines.append(f"| {figure['name']} | {shown} {unit}{missed} | {figure['target']} | {paper} | {ratio} |")
    return "\n".join(lines)


DEMO_COLUMNS = {
    "logistic": "logistic",
    "prototype": "prototype",
    "em (queries together)": "em",
    "prototype, unbalanced queries": "prototype/dirichlet",
    "em, unbalanced queries": "em/dirichlet",
}


def demo_table(runs: dict[str, Any]) -> str:
    """Accuracy in % of every run of the demo, by head and by the queries it answered; its seconds."""
    config = next(iter(runs.values()))["config"]
    lines = [
        f"| {config['way']}-way {config['shot']}-shot, `{config['dataset']}` | {' | '.join(DEMO_COLUMNS)} | seconds |",
        "|---|" + "---:|" * (len(DEMO_COLUMNS) + 1),
    ]
    for method, metrics in runs.items():
        trained = metrics["config"]["episodes"] if metrics["history"] else None
        name = f"`{method}`" + (f", {trained:,} episodes" if trained else ", trains nothing")
        found = [metrics["evaluations"][key] for key in DEMO_COLUMNS.values()]
        numbers = [f"{100 * one['accuracy']:.2f} ± {100 * one['ci95']:.2f}" for one in found]
        lines.append(f"| {name} | {' | '.join(numbers)} | {sum(metrics['seconds'].values()):.0f} |")
    return "\n".join(lines)


def demo_results(folder: Path) -> dict[str, Any]:
    """The runs in a folder of the demo by method, in the order of the command, without the accuracy of single tasks."""
    found = {}
    for method in DEFAULT_METHODS:
        metrics = json.loads((folder / method.replace("/", "-") / "metrics.json").read_text())
        for block in ("evaluations", "baseline"):
            for one in metrics[block].values():
                one.pop("per_task")
        found[method] = metrics
    return found


def methods_table(tables: dict[str, str]) -> str:
    """Every method on every dataset, from the Markdown tables of ``naq reproduce methods``."""
    accuracies: dict[tuple[str, str], dict[str, str]] = {}
    columns: list[str] = []
    for dataset, text in tables.items():
        header, rows = markdown_table(text)
        for place, title in enumerate(header):
            if "-shot" in title:
                columns.append(f"{dataset} {title.removeprefix('test accuracy, % ')}")
                for row in rows:
                    method = re.sub(
                        r" \([^()]*cut at [^()]*\)$", "", row[0]
                    )  # how long it was trained differs by dataset
                    accuracies.setdefault((method, row[1]), {})[columns[-1]] = row[place]
    lines = [f"| method | episodes | {' | '.join(columns)} |", "|---|---|" + "---:|" * len(columns)]
    for (method, kind), found in accuracies.items():
        lines.append(f"| {method} | {kind} | {' | '.join(found.get(column, '') for column in columns)} |")
    return "\n".join(lines)


def markdown_table(text: str) -> tuple[list[str], list[list[str]]]:
    """Header and rows of the first table of a Markdown text."""
    lines = [
        [cell.strip() for cell in line.strip().strip("|").split("|")]
        for line in text.splitlines()
        if line.startswith("|")
    ]
    return lines[0], lines[2:]


def answers(found: dict[str, Any]) -> str:
    """The answers of the report's first screen, and the first sentence of every section."""
    questions = {
        "best": "Which method is best?",
        "margin": "By how much?",
        "real": "Is the difference significant?",
        "cost": "What did it cost?",
    }
    lines = ["| | |", "|---|---|"]
    lines += [
        f"| {question} | **{found['answers'][name]['short']}** {found['answers'][name]['text']} |"
        for name, question in questions.items()
    ]
    lines.append("")
    lines += [f"- **{title}.** {sentences[0]}" for title, sentences in found["sections"].items() if sentences]
    return "\n".join(lines)


def filled(text: str, mark: str, body: str) -> str:
    begin, end = f"<!-- {mark}:begin -->", f"<!-- {mark}:end -->"
    head, rest = text.split(begin)
    return f"{head}{begin}\n{body}\n{end}{rest.split(end)[1]}"


def read(name: str) -> dict[str, Any]:
    return json.loads((RESULTS / name).read_text())


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args(arguments).check
    if DEMO.is_dir() and not check:
        (RESULTS / "demo.json").write_text(json.dumps(demo_results(DEMO), indent=2) + "\n")
    lines = first_lines(RESULTS / "beyond.zip")
    bodies = {
        README: {"practice": readme_table(RESULTS / "practice.zip")},
        PAGE: {
            "first": first_table(lines),
            "demo": demo_table(read("demo.json")),
            "figures": figures_table(read("figures.json")),
            "methods": methods_table({"debian": methods_file("debian").read_text()}),
            "reproduction": answers(read("reproduction.json")),
        },
    }
    differ = False
    for path, marks in bodies.items():
        text = old = path.read_text()
        for mark, body in marks.items():
            text = filled(text, mark, body)
        differ |= text != old
        if not check:
            path.write_text(text)
        elif text != old:
            print(f"{path.name} does not show the recorded results; run python tools/readme.py.", file=sys.stderr)
    if not check:
        draw_first(lines, PICTURE)
    return int(check and differ)


def methods_file(dataset: str) -> Path:
    """The one table of all methods on a dataset."""
    (file,) = TABLES.glob(f"methods-{dataset}*.md")
    return file


if __name__ == "__main__":
    sys.exit(main())
