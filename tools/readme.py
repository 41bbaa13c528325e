"""Write measured numbers into README.md: the demo's table, the learners and the figures of ``make bench``.

python tools/readme.py            from runs/demo and the JSON files in benchmarks/results
python tools/readme.py --check    fail if README.md differs from them
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
FIGURES = ROOT / "benchmarks" / "results" / "figures.json"
LEARNERS = ROOT / "benchmarks" / "results" / "learner_table.json"
SPEED = ROOT / "benchmarks" / "results" / "learner_speed.json"
EPOCHS = ROOT / "benchmarks" / "results" / "embedder_speed.json"
REPRODUCTION = ROOT / "benchmarks" / "results" / "reproduction.json"
DEMO = ROOT / "benchmarks" / "results" / "demo.json"


def figures_table(results: dict) -> str:
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


def demo_table(metrics: dict) -> str:
    """Method, head, accuracy and seconds of the demo's run."""
    config = metrics["config"]
    lines = [
        f"| {config['way']}-way {config['shot']}-shot, `{config['dataset']}` | head | accuracy % | seconds |",
        "|---|---|---|---|",
    ]
    own = sum(v for k, v in metrics["seconds"].items() if k != "baseline")
    for name, block, seconds in (
        ("`smooth`, training-free", metrics["baseline"], metrics["seconds"]["baseline"]),
        (f"`{config['method']}`, {config['episodes']:,} episodes", metrics["evaluations"], own),
    ):
        for i, (head, found) in enumerate(block.items()):
            star = " (queries together)" if found["transductive"] else ""
            lines.append(
                f"| {name if i == 0 else ''} | {head}{star} | {100 * found['accuracy']:.2f} ± {100 * found['ci95']:.2f} | {f'{seconds:.0f}' if i == 0 else ''} |"
            )
    return "\n".join(lines)


def shown(scores: dict | None) -> str:
    """Accuracy under the head that chose the checkpoint, with its mark."""
    found = scores and (scores.get("logistic") or scores["own"])
    return f"{found['mean']:.1f} {found['mark']}" if found else ""


def rivals_table(results: dict, speed: dict) -> str:
    """Methods without episodes: accuracy on both graphs, seconds per epoch and memory on two cores."""
    names = list(dict.fromkeys(row["method"] for row in speed["rows"]))
    lines = [
        "| accuracy % | debian 1-shot | debian 5-shot | coauthor_cs 1-shot | coauthor_cs 5-shot | s per epoch, debian | s per epoch, coauthor_cs | peak GB, coauthor_cs |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for name in names:
        cells = []
        for title in ("debian/1shot", "debian/5shot", "coauthor_cs/1shot", "coauthor_cs/5shot"):
            scores = next((row["scores"] for row in results["tables"][title] if row["method"] == name), None)
            if scores and "own" in scores:
                scores = {"own": scores["own"]}
            cells.append(shown(scores))
        alone = {r["graph"]: r for r in speed["rows"] if r["method"] == name and r["copies"] == 1}
        cells += [f"{alone[g]['seconds_per_epoch']:.2f}" for g in ("debian", "coauthor_cs")]
        cells.append(f"{alone['coauthor_cs']['peak_gb']:.1f}")
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def learners_table(results: dict, speed: dict) -> str:
    """Every learner's 1-shot accuracy on both graphs and its milliseconds per NaQ-Feat episode."""
    rows = {
        dataset: {row["method"]: row["scores"] for row in results["tables"][f"{dataset}/1shot"]}
        for dataset in ("debian", "coauthor_cs")
    }
    kinds, head = ("naq-feat", "naq-diff", "supervised"), "| 5-way 1-shot, accuracy % |"
    titles = [f"{dataset} {kind}" for dataset in rows for kind in kinds]
    lines = [f"{head} {' | '.join(titles)} | ms, 2 cores | ms, H200 |", "|---|" + "---:|" * (len(titles) + 2)]

    for name in [m.split("/")[1] for m in rows["debian"] if m.startswith("naq-feat/")]:
        cells = [shown(rows[dataset].get(f"{kind}/{name}")) for dataset in rows for kind in kinds]
        times = [speed.get(d, {}).get(name, {}).get("kinds", {}).get("naq-feat", {}).get("ms") for d in ("cpu", "cuda")]
        lines.append(
            f"| `{name}` | {' | '.join(cells)} | {' | '.join('' if t is None else f'{t:.1f}' for t in times)} |"
        )
        both = [rows[dataset].get(f"{kind}/{name}") or {} for dataset in rows for kind in kinds]
        if all("own" in scores and "logistic" in scores for scores in both):
            cells = [shown({"own": scores["own"]}) for scores in both]
            lines.append(f"| `{name}`, its own answers | {' | '.join(cells)} | | |")
    for name in ("smooth (training-free)", "untrained"):
        cells = [f"{rows[dataset][name]['logistic']['mean']:.1f}" for dataset in rows]
        lines.append(f"| {name} | {cells[0]} | | | {cells[1]} | | | | |")
    return "\n".join(lines)


def reproduction_lines(found: dict) -> str:
    """The answers of the report of the bundled graph, and the first sentences of a few of its sections."""
    questions = {
        "best": "Which method is best?",
        "margin": "By how much?",
        "real": "Is it real?",
        "cost": "What did it cost?",
    }
    lines = ["| | |", "|---|---|"]
    for name, question in questions.items():
        answer = found["answers"][name]
        lines.append(f"| {question} | **{answer['short']}** {answer['text']} |")
    lines.append("")
    shown = (
        "Label scarcity",
        "Class imbalance",
        "Structure noise",
        "Number of queries",
        "5-way against 20-way training",
        "Query overlap",
    )
    lines += [
        f"- **{title}.** {' '.join(said)}"
        for title, said in found["sections"].items()
        if said and title.startswith(shown)
    ]
    return "\n".join(lines)


def filled(text: str, mark: str, body: str) -> str:
    begin, end = f"<!-- {mark}:begin -->", f"<!-- {mark}:end -->"
    head, rest = text.split(begin)
    return f"{head}{begin}\n{body}\n{end}{rest.split(end)[1]}"


def main() -> int:
    demo = ROOT / "runs" / "demo" / "metrics.json"
    if demo.exists() and "--check" not in sys.argv:
        metrics = json.loads(demo.read_text())
        for block in ("evaluations", "baseline"):
            for found in metrics[block].values():
                found.pop("per_task")
        DEMO.write_text(json.dumps(metrics, indent=2) + "\n")
    text = old = README.read_text()
    if DEMO.exists():
        text = filled(text, "demo", demo_table(json.loads(DEMO.read_text())))
    if FIGURES.exists():
        text = filled(text, "figures", figures_table(json.loads(FIGURES.read_text())))
    if LEARNERS.exists() and SPEED.exists():
        text = filled(text, "learners", learners_table(json.loads(LEARNERS.read_text()), json.loads(SPEED.read_text())))
    if LEARNERS.exists() and EPOCHS.exists():
        text = filled(text, "rivals", rivals_table(json.loads(LEARNERS.read_text()), json.loads(EPOCHS.read_text())))
    if REPRODUCTION.exists():
        text = filled(text, "reproduction", reproduction_lines(json.loads(REPRODUCTION.read_text())))
    if "--check" in sys.argv:
        if text != old:
            print("README.md does not show the recorded results; run python tools/readme.py.", file=sys.stderr)
        return int(text != old)
    README.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
