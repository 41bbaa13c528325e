"""Tail classes: where trained encoders put the nodes of the ten smallest classes.

t-SNE (two dimensions, perplexity 30, PCA start, fixed seed) is a picture; silhouette and the purity of the five
nearest, on the original vectors, are the numbers to compare.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from naq_paper.experiments.captions import NOTHING, findings, table_name
from naq_paper.experiments.experiment import Experiment, Study
from naq_paper.experiments.names import full_name
from naq_paper.experiments.request import Request
from naq_paper.experiments.seed_groups import Key, SeedGroup, seed_group
from naq_paper.experiments.views import Entry, Panel, ScatterView, TableView, TextView, View, measured
from naq_paper.measurements.tail_map import tail_map_cell

MEASURES = {"purity": 100, "unit_purity": 100, "silhouette": 1, "unit_silhouette": 1}


class TailMaps(Experiment):
    """Maps of the smallest classes under several encoders, and how pure their neighbourhoods are."""

    def cells(self, request: Request, dataset: str) -> dict[Key, SeedGroup]:
        """Maps of the trainings that the other analyses use: same budget, first seed."""
        maps: dict[str, tuple[str, dict[str, Any]]] = {}
        for learner in request.learners_or():
            feat, diff = f"naq-feat/{learner}", f"naq-diff/{learner}"
            maps[full_name(feat)] = feat, {}
            if not request.limits.thin:
                maps[full_name(diff)] = diff, {}
                maps[f"{full_name(diff)}, 20-way training"] = diff, {"episode": {"way": 20}}
        for name in ("smooth",) if request.limits.thin else ("bgrl", "smooth"):
            maps[full_name(name)] = name, {}
        first = request.all_seeds[:1]
        return {
            name: seed_group(request, dataset, method, seeds=first, make=tail_map_cell, **more)
            for name, (method, more) in maps.items()
        }

    def figures(self, study: Study) -> list[View]:
        rows: list[list[Entry]] = []
        panels, done = [], {}
        for name in map(str, study.groups):
            r = study.result(name)
            if r is None:
                rows.append([name, *[study.missing(name)] * len(MEASURES)])
                continue
            done[name], keys = r, study.keys(name)
            entries = (
                measured(r[m], 1 if scale == 100 else 3, scale=scale, keys=keys) for m, scale in MEASURES.items()
            )
            rows.append([name, *entries])
            panels.append(Panel(name, r["x"], r["y"], r["group"], _caption(r)))
        file, title = table_name(study), f"{self.title}: {study.dataset}"
        columns = ["vectors", "5-NN purity %", "5-NN purity, unit %", "silhouette", "silhouette, unit"]
        table = TableView(file, title, columns, rows)
        if not done:
            return [TextView([NOTHING]), table]
        first = next(iter(done.values()))
        groups = [f"{title} ({size})" for title, size in zip(first["class_names"], first["class_sizes"])]
        note = (
            f"{first['points']} nodes of the {len(groups)} smallest classes; distances in t-SNE pictures between "
            "far groups mean nothing."
        )
        return [findings(study, [_sentence(done)]), ScatterView(file, title, panels, groups, note), table]


def _sentence(done: Mapping[str, Mapping[str, Any]]) -> str:
    pure = {name: r["unit_purity"] for name, r in done.items() if r["unit_purity"] is not None}
    if not pure:
        return "Purity is not defined here: there are too few nodes in the smallest classes."
    best = max(pure, key=lambda name: pure[name])
    chance = done[best]["chance_purity"]
    return (
        f"Purest neighbourhoods: {best}, {100 * pure[best]:.1f} % of a node's five nearest (unit vectors) share "
        "its class"
        f"{'' if chance is None else f'; labels dealt at random would have {100 * chance:.1f} %'}. "
        "One training each: no significance is claimed."
    )


def _caption(result: Mapping[str, Any]) -> str:
    purity, silhouette = result["unit_purity"], result["unit_silhouette"]
    return (
        f"purity {'–' if purity is None else f'{100 * purity:.1f} %'}, "
        f"silhouette {'–' if silhouette is None else f'{silhouette:.3f}'}"
    )
