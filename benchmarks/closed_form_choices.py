"""Which form of the closed form: every choice of ``naq-plus`` on base and validation classes, no test class is touched.

    python benchmarks/closed_form_choices.py --data ../shared/data [--device cuda] [--quick]

Two parts, written to ``results/closed_form_choices.json``:

- ``variants``: width, smoothing, neighbours, gamma, p, kinds of pairs; the gain over ``smooth`` in points at one and five shots.
- ``partners``: vectors of trained methods (some seeds) as they are, refined (steps 3 to 5), and beside the smoothed features with several
  weights; the gain over ``naq-plus``.

Gains are means over 400 tasks of paired differences, with 95 % intervals over tasks; a mean over graphs orders the variants.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

import naq
from closed_form_steps import refined, sharpened, without_scatter
from development import FIRST, WAYS, development_classes, source_of
from naq.embedders.closed_form import PAIRS
from naq.embedders.naq_plus import NaqPlus
from naq.embedders.node_words import node_words
from naq.embedders.smoothing import centred, narrowed, on_device, smoothed, unit
from naq.graph import Graph
from naq.io.splits import split_for
from naq.neighbors import mutual_pairs, vector_neighbors
from naq.tasks import Tasks

RESULT = Path(__file__).parent / "results" / "closed_form_choices.json"
DOCS = Path(__file__).resolve().parents[1] / "docs" / "choices.md"
RELEASED = "nearest pairs, width 384, k 10, gamma 0.5, p 1.75"
TASKS, QUERIES, SEED = 400, 8, 77
POWERS = (1.0, 1.25, 1.5, 1.75, 2.0)
WEIGHTS = (0.25, 0.5, 1.0)
PARTNERS: dict[str, dict[str, Any]] = {
    "bgrl": {"epochs": 300},
    "sugrl": {"epochs": 300},
    "naq-feat/protonet": {"episodes": 1600, "patience": 4},
    "naq-feat/cosmic": {"episodes": 800, "patience": 4},
}


def development_tasks(graph: Graph, source: str, way: int, shot: int) -> Tasks:
    """Tasks of base and validation classes."""
    sizes = np.bincount(graph.require_labels("tasks")[graph.require_labels("tasks") >= 0])
    classes = [c for c in development_classes(graph, source) if sizes[c] >= shot + QUERIES]
    return naq.sample_tasks(
        graph, way=min(way, len(classes)), shot=shot, queries=QUERIES, count=TASKS, seed=SEED, classes=classes
    )


class Bench:
    """One graph: its tasks and what the vectors of others are compared with."""

    def __init__(self, name: str, source: str, device: str) -> None:
        self.name, self.source, self.device = name, source, device
        self.graph = naq.load(source)
        self.tasks = [development_tasks(self.graph, source, WAYS[name], shot) for shot in (1, 5)]

    def scores(self, vectors: np.ndarray | torch.Tensor) -> list[np.ndarray]:
        return [naq.evaluate(vectors, tasks, head="prototype").per_task for tasks in self.tasks]


def gain(one: np.ndarray, two: np.ndarray) -> list[float]:
    """Points that ``one`` is above ``two``, and half the width of its 95 % interval over tasks."""
    apart = 100 * (one - two)
    return [round(float(apart.mean()), 2), round(float(1.96 * apart.std() / math.sqrt(len(apart))), 2)]


class Forms:
    """Makes forms of the closed form of one graph."""

    def __init__(self, bench: Bench) -> None:
        graph, self.device = bench.graph.without_labels(), torch.device(bench.device)
        words = node_words(graph)
        self.words = on_device(words, self.device)
        dense = self.words is words or isinstance(words, np.ndarray)
        self.turned = None if dense else on_device(sp.csr_array(words.T), self.device)
        self.adjacency = on_device(graph.normalized_adjacency(), self.device)

    def start(self, dim: int) -> Any:
        return unit(narrowed(self.words, dim, 0, self.turned))

    def smoothed(self, start: Any, steps: int = 10, smoothing: str = "ppr") -> torch.Tensor:
        return torch.as_tensor(centred(smoothed(self.adjacency, start, steps, smoothing))).to(self.device)

    def of(
        self, title: str, rows: torch.Tensor, *, k: int = 10, gammas: tuple[float, ...] = (0.5,), pairs: str = "mutual"
    ) -> Iterator[tuple[str, torch.Tensor]]:
        """Every power of the scatter step with these pairs."""
        found = PAIRS[pairs](vector_neighbors(rows, k, device=self.device))
        for gamma in gammas:
            white = without_scatter(rows, found, gamma)
            for p in POWERS:
                yield f"{title}, k {k}, gamma {gamma:g}, p {p:g}", sharpened(white, p)


def nearest_forms(bench: Bench) -> Iterator[tuple[str, torch.Tensor]]:
    """Every node with each of its nearest."""
    forms = Forms(bench)
    for dim in (256, 384, 512):
        rows = forms.smoothed(forms.start(dim))
        chosen: tuple[tuple[int, tuple[float, ...]], ...] = ((5, (0.5,)), (10, (0.25, 0.5, 1.0)))
        for k, gammas in chosen if dim == 256 else ((10, (0.5,)),):
            yield from forms.of(f"nearest pairs, width {dim}", rows, k=k, gammas=gammas, pairs="nearest")


def other_forms(bench: Bench) -> Iterator[tuple[str, torch.Tensor]]:
    """Mutual pairs, and what else was tried with them."""
    forms = Forms(bench)
    narrow = forms.start(256)
    ppr = forms.smoothed(narrow)
    yield "no scatter step, p 1", ppr
    yield "no scatter step, p 1.5", sharpened(ppr, 1.5)
    yield from forms.of("mutual pairs", ppr, gammas=(0.1, 0.25, 0.5, 1.0, 2.0))
    for k in (5, 20):
        yield from forms.of("mutual pairs", ppr, k=k)
    again = without_scatter(ppr, mutual_pairs(vector_neighbors(ppr, 10, device=forms.device)), 0.5)
    yield from forms.of("two rounds", again)
    for steps in (0, 2, 5, 20):
        yield from forms.of(f"{steps} steps", forms.smoothed(narrow, steps))
    hops = forms.smoothed(narrow, 2, "hops")
    yield from forms.of("two hops", hops)
    yield from forms.of("ten steps beside two hops", centred(torch.cat([ppr, hops], dim=1)))
    first = torch.as_tensor(centred(narrow)).to(forms.device)
    white = without_scatter(first, mutual_pairs(vector_neighbors(first, 10, device=forms.device)), 0.5)
    after = forms.smoothed(on_device(unit(white.cpu().numpy()), forms.device))
    for p in POWERS:
        yield f"scatter of features before smoothing, p {p:g}", sharpened(after, p)
    for dim in (128, 384, 512):
        yield from forms.of(f"mutual pairs, width {dim}", forms.smoothed(forms.start(dim)))


def trained(bench: Bench, method: str, seed: int, quick: bool) -> np.ndarray:
    """Vectors of a method trained without labels; its checkpoint is the last or the one that validation tasks select."""
    options = dict(PARTNERS[method])
    if quick:
        options |= {"epochs": 20} if "epochs" in options else {"episodes": 160}
    split = split_for(bench.source, bench.graph)
    way = min(bench.tasks[0].way, len(split.valid), len(split.test))
    result = naq.run(bench.graph, method, way=way, seed=seed, device=bench.device, baseline=False, **options)
    assert result.embedding is not None
    return result.embedding


def partners(bench: Bench, seeds: int, quick: bool) -> dict[str, Any]:
    """Gains over ``naq-plus`` of trained vectors, refined and beside the smoothed features."""
    closed = NaqPlus(bench.graph, device=bench.device, **FIRST)
    plus, start = bench.scores(closed.embed()), torch.as_tensor(closed.smoothed()).to(bench.device)
    found: dict[str, dict[str, list[list[np.ndarray]]]] = {}
    for method in PARTNERS:
        rows = found.setdefault(method, {})
        for seed in range(seeds):
            vectors = trained(bench, method, seed, quick)
            beside = centred(torch.from_numpy(vectors).to(bench.device))
            rows.setdefault("alone", []).append(bench.scores(vectors))
            rows.setdefault("refined", []).append(bench.scores(refined(vectors, device=bench.device)))
            for weight in WEIGHTS:
                both = refined(torch.cat([start, weight * beside], dim=1), device=bench.device)
                rows.setdefault(f"beside, weight {weight:g}", []).append(bench.scores(both))
        print(bench.name, method, {name: [gain(np.mean([s[i] for s in seeds], axis=0), plus[i])[0] for i in (0, 1)] for name, seeds in rows.items()}, flush=True)  # fmt: skip
    return {
        method: {
            name: {
                "over naq-plus": [gain(np.mean([s[i] for s in seeds], axis=0), plus[i]) for i in (0, 1)],
                "over alone": [gain(np.mean([s[i] for s in seeds], axis=0), np.mean([s[i] for s in rows["alone"]], axis=0)) for i in (0, 1)],
            }
            for name, seeds in rows.items()
        }
        for method, rows in found.items()
    }  # fmt: skip


def shown(one: list[list[float]]) -> str:
    return " / ".join(f"{mean:+.1f} ± {half:.1f}" for mean, half in one)


def variants_table(found: dict[str, dict[str, Any]]) -> str:
    """A row per variant, the largest mean gain first; the released form is bold."""
    titles = [title for title in next(iter(found.values())) if all(title in one for one in found.values())]
    order = sorted(
        titles, key=lambda title: -float(np.mean([gain for one in found.values() for gain, _ in one[title]]))
    )
    lines = ["| form | mean | " + " | ".join(found) + " |", "|---|---:|" + "---:|" * len(found)]
    for title in order:
        means = [np.mean([one[title][shot][0] for one in found.values()]) for shot in (0, 1)]
        name = f"**{title}**" if title == RELEASED else title
        lines.append(f"| {name} | {means[0]:+.1f} / {means[1]:+.1f} | " + " | ".join(shown(one[title]) for one in found.values()) + " |")  # fmt: skip
    return "\n".join(lines)


def partners_table(found: dict[str, dict[str, Any]]) -> str:
    """Per method: alone, refined and beside the smoothed features; gains over naq-plus, and of refining over the vectors alone."""
    lines = ["| vectors | | " + " | ".join(found) + " |", "|---|---|" + "---:|" * len(found)]
    for method, rows in next(iter(found.values())).items():
        for i, name in enumerate(rows):
            entries = " | ".join(shown(one[method][name]["over naq-plus"]) for one in found.values())
            lines.append(f"| {method if i == 0 else ''} | {name} | {entries} |")
        entries = " | ".join(shown(one[method]["refined"]["over alone"]) for one in found.values())
        lines.append(f"| | *refined, over alone* | {entries} |")
    return "\n".join(lines)


def write_docs(result: dict[str, Any]) -> None:
    """Fill the two tables of the page."""
    page = DOCS.read_text(encoding="utf-8")
    for name, made in (("variants", variants_table), ("partners", partners_table)):
        begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
        before, _, rest = page.partition(begin)
        page = before + begin + "\n" + made(result[name]) + "\n" + end + rest.partition(end)[2]
    DOCS.write_text(page, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--data", type=Path, default=Path("../shared/data"), help="folder of the graphs beside the bundled one"
    )
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--graphs", nargs="*", default=list(WAYS))
    parser.add_argument(
        "--parts", nargs="*", choices=["nearest", "others", "partners"], default=["nearest", "others", "partners"]
    )
    parser.add_argument("--seeds", type=int, default=3, help="trainings of every partner")
    parser.add_argument("--quick", action="store_true", help="short trainings: shows that it runs")
    parser.add_argument("--out", type=Path, default=RESULT)
    parser.add_argument("--docs", action="store_true", help="only write the tables of docs/choices.md again")
    given = parser.parse_args()
    if given.docs:
        write_docs(json.loads(RESULT.read_text(encoding="utf-8")))
        return

    def bench(name: str) -> Bench:
        return Bench(name, source_of(name, given.data), given.device)

    def gains(name: str, forms: Callable[[Bench], Iterator[tuple[str, torch.Tensor]]]) -> dict[str, Any]:
        one = bench(name)
        base = one.scores(naq.embed(one.graph, "smooth"))
        return {
            title: [gain(score, other) for score, other in zip(one.scores(rows), base, strict=True)]
            for title, rows in forms(one)
        }

    works: dict[str, tuple[str, Callable[[str], dict[str, Any]]]] = {
        "nearest": ("variants", lambda name: gains(name, nearest_forms)),
        "others": ("variants", lambda name: gains(name, other_forms)),
        "partners": ("partners", lambda name: partners(bench(name), given.seeds, given.quick)),
    }
    result = json.loads(given.out.read_text(encoding="utf-8")) if given.out.is_file() else {}
    for part in given.parts:
        kept, work = works[part]
        for name in given.graphs:
            mark = time.perf_counter()
            found = result.setdefault(kept, {}).setdefault(name, {})
            found.update(work(name))
            given.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
            print(f"{part}: {name} done in {time.perf_counter() - mark:.0f} s", flush=True)
    print(f"written: {given.out}")


if __name__ == "__main__":
    main()
