"""Times of similarity and of 16,000 episodes, after a warm-up, with the device synchronised.

The paper's times of NaQ-Feat similarity are asynchronous launches (0.0014 s for 7e12 operations on Cora-Full) and are shown only to be
seen; they compare with nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from naq.experiments.captions import NOTHING, findings, table_name, value_of
from naq.experiments.experiment import EXPERIMENTS, Experiment, Study
from naq.experiments.names import KINDS
from naq.experiments.paper import paper_time
from naq.experiments.request import Request
from naq.experiments.seed_groups import Key, SeedGroup
from naq.experiments.views import Entry, Number, TableView, View
from naq.grid.measurements.times import times_cell

ROWS = (
    ("similarity", "naq-feat"),
    ("similarity", "naq-diff"),
    ("episodes", "naq-feat"),
    ("episodes", "naq-diff"),
    ("episodes", "supervised"),
)
WIDTH = 100
"""Neighbours per node that are found: enough for every number of queries of the paper's sweep."""
PAPER = {"similarity": "similarity", "episodes": "episodes_16000"}
TITLES = {"similarity": f"table of the {WIDTH} most similar nodes", "episodes": "16,000 episodes"}


@EXPERIMENTS.register
class Times(Experiment):
    name = "times"
    title = "Times of similarity and episodes"
    question = "What do label-free episodes cost before training begins?"
    origin = "Tables 9 and 10"
    datasets = ("amazon-clothing", "amazon-electronics", "cora-full", "dblp")

    def groups(self, request: Request, dataset: str) -> dict[Key, SeedGroup]:
        settings: dict[str, Any] = {
            "k": WIDTH,
            "features": request.features,
            "device": request.device,
            "repeats": 1 if request.limits.thin else 5,
        }
        return {
            (what, kind): SeedGroup.of(times_cell(dataset, what=what, kind=kind, **settings))
            for what, kind in _rows(request)
        }

    def views(self, study: Study) -> list[View]:
        rows: list[list[Entry]] = []
        sentences: list[str] = []
        hardware = ""
        for what, kind in _rows(study.request):
            paper = value_of(paper_time(PAPER[what], study.dataset, kind))
            record = study.record((what, kind))
            if record is None or record.result is None:
                rows.append([TITLES[what], KINDS[kind], study.missing((what, kind), paper), *("–",) * 4])
                continue
            r = record.result
            hardware = _words(r["hardware"])
            digits = 4 if r["mean"] < 0.1 else 2
            rows.append(
                [
                    TITLES[what],
                    KINDS[kind],
                    Number(
                        r["mean"],
                        spread=r["sd"],
                        seeds=len(r["seconds"]),
                        paper=paper,
                        digits=digits,
                        keys=(record.key,),
                    ),
                    Number(r["min"], digits=digits),
                    str(r["computed_on"]),
                    str(r["threads"]["numba"]),
                    "–" if r["load"] is None else f"{r['load']:.1f}",
                ]
            )
            sentences.append(f"{TITLES[what]}, {KINDS[kind]}: {r['mean']:.3g} s ({r['parts']}).")
        note = f"Mean of timed calls after one warm-up, device synchronised. {hardware}The paper used one RTX A6000; its similarity times of NaQ-Feat were taken without synchronisation and compare with nothing."
        columns = ["what", "kind", "seconds", "best", "on", "threads", "load before"]
        return [
            findings(study, sentences or [NOTHING]),
            TableView(table_name(study), f"{self.title}: {study.dataset}", columns, rows, labels=2, note=note),
        ]


def _rows(request: Request) -> tuple[tuple[str, str], ...]:
    return tuple(row for row in ROWS if not request.limits.thin or row != ("similarity", "naq-diff"))


def _words(hardware: Mapping[str, Any]) -> str:
    gpu = f", {hardware['gpu']}" if hardware.get("gpu") else ""
    return f"Hardware: {hardware['processor']}, {hardware['cores']} cores{gpu}. "
