"""Write measured numbers into README.md: the demo's table, the table of all methods, the report's answers and the figures of ``make bench``.

python tools/readme.py            from runs/demo, docs/reproduction and the JSON files in benchmarks/results
python tools/readme.py --check    fail if README.md differs from them
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
RESULTS = ROOT / "benchmarks" / "results"
TABLES = ROOT / "docs" / "reproduction" / "tables"
DATASETS = ("debian", "coauthor-cs")


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


def demo_table(metrics: dict[str, Any]) -> str:
    """Method, head, accuracy and seconds of the demo's run; a column for Dirichlet(2) queries where it has them."""
    config = metrics["config"]
    unbalanced = any("/" in head for head in metrics["evaluations"])
    titles = ["head", "accuracy %", *(["Dirichlet(2) queries %"] if unbalanced else []), "seconds"]
    lines = [
        f"| {config['way']}-way {config['shot']}-shot, `{config['dataset']}` | {' | '.join(titles)} |",
        "|---|" + "---|" * len(titles),
    ]

    def accuracy(found: dict[str, Any] | None) -> str:
        return "" if found is None else f"{100 * found['accuracy']:.2f} ± {100 * found['ci95']:.2f}"

    own = sum(v for k, v in metrics["seconds"].items() if k != "baseline")
    for name, block, seconds in (
        ("`smooth`, which trains nothing", metrics["baseline"], metrics["seconds"]["baseline"]),
        (f"`{config['method']}`, {config['episodes']:,} episodes", metrics["evaluations"], own),
    ):
        heads = [head for head in block if "/" not in head]
        for i, head in enumerate(heads):
            together = " (queries together)" if block[head]["transductive"] else ""
            numbers = [accuracy(block[head]), *([accuracy(block.get(f"{head}/dirichlet"))] if unbalanced else [])]
            taken = f"{seconds:.0f}" if i == 0 else ""
            lines.append(f"| {name if i == 0 else ''} | {head}{together} | {' | '.join(numbers)} | {taken} |")
    return "\n".join(lines)


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


def main() -> int:
    check = "--check" in sys.argv
    demo = ROOT / "runs" / "demo" / "metrics.json"
    if demo.exists() and not check:
        metrics = json.loads(demo.read_text())
        for block in ("evaluations", "baseline"):
            for found in metrics[block].values():
                found.pop("per_task")
        (RESULTS / "demo.json").write_text(json.dumps(metrics, indent=2) + "\n")
    text = old = README.read_text()
    text = filled(text, "demo", demo_table(read("demo.json")))
    text = filled(text, "figures", figures_table(read("figures.json")))
    tables = {dataset: (TABLES / f"methods-{dataset}.md").read_text() for dataset in DATASETS}
    text = filled(text, "methods", methods_table(tables))
    text = filled(text, "reproduction", answers(read("reproduction.json")))
    if check:
        if text != old:
            print("README.md does not show the recorded results; run python tools/readme.py.", file=sys.stderr)
        return int(text != old)
    README.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
