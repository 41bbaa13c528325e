"""How sure classes from names alone are, and how often right: what ``naq predict`` wrote beside what Debian says.

naq predict debian --classes examples/sections.txt --out sections.csv
python examples/class_names.py sections.csv
"""

import csv
import sys
from pathlib import Path

import naq

graph = naq.load("debian")
truth = dict(zip(graph.names, graph.class_names[graph.labels]))
with Path(sys.argv[1]).open(newline="", encoding="utf-8") as file:
    rows = list(csv.DictReader(file))
rows.sort(key=lambda row: -float(row["probability"]))
for row in [rows[place * len(rows) // 12] for place in range(12)]:
    print(f"{row['node']:>24}: {row['class']:<12} {100 * float(row['probability']):3.0f} %  {row['text'][:70]}")


def right(some: list[dict[str, str]]) -> float:
    return 100 * sum(row["class"] == truth[row["node"]] for row in some) / len(some)


sure = [row for row in rows if float(row["probability"]) >= 0.9]
mean = 100 * sum(float(row["probability"]) for row in rows) / len(rows)
print(f"It expects {mean:.0f} % to be right; Debian's own sections, which it did not read, say {right(rows):.0f} %.")
print(f"Of the {len(sure):,} that it is at least 90 % sure of, {right(sure):.0f} % are right.")
words = Path(__file__).with_name("sections.txt").read_text().split()
print(f"classes for {len(rows):,} packages from {len(words)} words")
