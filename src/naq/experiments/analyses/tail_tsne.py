"""Tail classes: where trained encoders put the nodes of the ten smallest classes.

t-SNE (two dimensions, perplexity 30, PCA start, fixed seed) is a picture; silhouette and the purity of the five nearest, on the original
vectors, are the numbers to compare.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from naq.experiments.base import Experiment, candidates, register_experiment, setting, training
from naq.experiments.captions import dataset_slug, not_there, told
from naq.experiments.names import full_name
from naq.experiments.request import Request
from naq.experiments.views import Entry, Panel, ScatterView, TableView, TextView, View, plain
from naq.grid.cells import Cell
from naq.grid.measurements.tail_map import tail_map_cell
from naq.grid.records import Find

MEASURES = {"purity": 100, "unit_purity": 100, "silhouette": 1, "unit_silhouette": 1}


@register_experiment
class TailMaps(Experiment):
    name = "tail-tsne"
    title = "Tail classes"
    question = "Are the smallest classes apart in the vectors of an encoder that saw no label?"
    origin = "Figures 5 and 8"

    def cells(self, request: Request, find: Find) -> list[Cell]:
        return [
            cell
            for dataset in request.datasets
            for cells in self._maps(request, find, dataset).values()
            for cell in cells
        ]

    def _maps(self, request: Request, find: Find, dataset: str) -> dict[str, list[Cell]]:
        """The cells of each map: one, or the candidates of its setting while it is not chosen."""
        feat, diff = f"naq-feat/{request.learner}", f"naq-diff/{request.learner}"
        asked: dict[str, tuple[str, dict[str, Any]]] = {
            full_name(feat): (feat, {}),
            full_name(diff): (diff, {}),
            f"{full_name(diff)}, 20-way training": (diff, {"episode": {"way": 20}}),
            full_name("bgrl"): ("bgrl", {}),
            full_name("smooth"): ("smooth", {}),
        }
        maps = {}
        if request.plan.thin:
            asked = {name: asked[name] for name in (full_name(feat), full_name("smooth"))}
        for name, (method, more) in asked.items():
            found = setting(request, find, dataset, method)
            maps[name] = (
                candidates(request, dataset, method) if found is None else [_map(request, dataset, method, found, more)]
            )
        return maps

    def views_of(self, request: Request, find: Find, dataset: str) -> list[View]:
        records = {
            name: find(cells[0]) if cells[0].measurement == "tail-map" else None
            for name, cells in self._maps(request, find, dataset).items()
        }
        rows: list[list[Entry]] = []
        panels, done = [], {}
        for name, record in records.items():
            if record is None or record.result is None:
                rows.append([name, *[not_there(record)] * len(MEASURES)])
                continue
            r = record.result
            done[name] = r
            rows.append(
                [
                    name,
                    *(
                        plain(r[m], 1 if scale == 100 else 3, scale=scale, keys=(record.key,))
                        for m, scale in MEASURES.items()
                    ),
                ]
            )
            panels.append(Panel(name, r["x"], r["y"], r["group"], _caption(r)))
        slug, title = f"{self.name}-{dataset_slug(dataset)}", f"{self.title}: {dataset}"
        columns = ["vectors", "5-NN purity %", "5-NN purity, unit %", "silhouette", "silhouette, unit"]
        table = TableView(slug, title, columns, rows)
        if not done:
            return [TextView(["Nothing is finished yet."]), table]
        first = next(iter(done.values()))
        groups = [f"{title} ({size})" for title, size in zip(first["class_names"], first["class_sizes"])]
        note = f"{first['points']} nodes of the {len(groups)} smallest classes; distances in t-SNE pictures between far groups mean nothing."
        return [told(request, dataset, [_sentence(done)]), ScatterView(slug, title, panels, groups, note), table]


def _map(request: Request, dataset: str, method: str, options: dict[str, Any], more: dict[str, Any]) -> Cell:
    """The map of the training that the other analyses use: same budget, first seed."""
    return training(request, dataset, method, options=options, seed=request.all_seeds[0], make=tail_map_cell, **more)


def _sentence(done: Mapping[str, Mapping[str, Any]]) -> str:
    pure = {name: r["unit_purity"] for name, r in done.items() if r["unit_purity"] is not None}
    if not pure:
        return "Purity is not defined here: there are too few nodes in the smallest classes."
    best = max(pure, key=lambda name: pure[name])
    chance = done[best]["chance_purity"]
    return (
        f"Purest neighbourhoods: {best}, {100 * pure[best]:.1f} % of a node's five nearest (unit vectors) share its class"
        f"{'' if chance is None else f'; labels dealt at random would have {100 * chance:.1f} %'}. "
        "One training each: differences of a few points are not evidence."
    )


def _caption(result: Mapping[str, Any]) -> str:
    purity, silhouette = result["unit_purity"], result["unit_silhouette"]
    return (
        f"purity {'–' if purity is None else f'{100 * purity:.1f} %'}, "
        f"silhouette {'–' if silhouette is None else f'{silhouette:.3f}'}"
    )
