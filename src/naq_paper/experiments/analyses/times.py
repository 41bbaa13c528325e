"""Times of similarity and of 16,000 episodes, after a warm-up, with the device synchronised.

The paper's times of NaQ-Feat similarity are asynchronous launches (0.0014 s for 7e12 operations on Cora-Full) and are shown only to be
seen; they compare with nothing.

The rows of the ogbn graphs are from the paper's text: a list of the top 100 nodes instead of the whole similarity matrix, with the negative Euclidean
distance, since their features are embeddings. It has no diffusion of ogbn-products.
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import mean
from typing import Any

from naq_paper.experiments.captions import NOTHING, findings, table_name, value_of
from naq_paper.experiments.experiment import Experiment, Study
from naq_paper.experiments.names import KINDS
from naq_paper.experiments.paper import PaperNumber, paper_time
from naq_paper.experiments.paper.names import PAPER_DATASETS
from naq_paper.experiments.request import Request
from naq_paper.experiments.seed_groups import Key, SeedGroup
from naq_paper.experiments.views import Entry, Number, TableView, View
from naq_paper.measurements.times import STAGES, times_cell

ROWS = (
    ("similarity", "naq-feat"),
    ("similarity", "naq-diff"),
    ("episodes", "naq-feat"),
    ("episodes", "naq-diff"),
    ("episodes", "supervised"),
)
WIDTH = 100
"""Neighbours per node that are found: enough for every number of queries of the paper's sweep."""
EMBEDDED = ("ogbn-arxiv", "ogbn-products")
"""Graphs whose features are embeddings."""
NO_DIFFUSION = ("ogbn-products",)
REPEATS = 5
TITLES = {"similarity": f"table of the {WIDTH} most similar nodes", "episodes": "16,000 episodes"}


class Times(Experiment):
    name = "times"
    title = "Times of similarity and episodes"
    question = "What do label-free episodes cost before training begins?"
    origin = "Tables 9 and 10, and the text on time complexity"
    datasets = tuple(PAPER_DATASETS)

    def groups(self, request: Request, dataset: str) -> dict[Key, SeedGroup]:
        settings: dict[str, Any] = {
            "k": WIDTH,
            "features": request.features,
            "device": request.device,
            "repeats": 1 if request.limits.thin else REPEATS,
            "metric": "euclidean" if dataset in EMBEDDED else "cosine",
        }
        return {
            (what, kind): SeedGroup.of(times_cell(dataset, what=what, kind=kind, **settings))
            for what, kind in _rows(request, dataset)
        }

    def views(self, study: Study) -> list[View]:
        rows: list[list[Entry]] = []
        sentences: list[str] = []
        hardware = ""
        together: dict[str, str] = {}
        for what, kind in _rows(study.request, study.dataset):
            paper = value_of(_paper(what, study.dataset, kind))
            record = study.record((what, kind))
            if record is None or record.result is None:
                rows.append([TITLES[what], KINDS[kind], study.missing((what, kind), paper), *("–",) * 7])
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
                    *_stages(r),
                    str(r["computed_on"]),
                    str(r["threads"]["numba"]),
                    "–" if r["load"] is None else f"{r['load']:.1f}",
                ]
            )
            sentences.append(f"{TITLES[what]}, {KINDS[kind]}: {r['mean']:.3g} s ({r['parts']}).")
            if what == "similarity" and r["stages"] is None:
                together[KINDS[kind]] = str(r["why_no_stages"])
        columns = ["what", "kind", "seconds", "best", *STAGES, "on", "threads", "load before"]
        note = " ".join(
            [
                "Seconds: mean over timed calls after one warm-up, device synchronised; in parentheses the standard deviation over these calls. It is no interval, "
                "and neither tasks nor seeds are in it.",
                "Compute, selection (top-k) and transfer are means over as many further calls that wait for the device after each; their sum may be above the total.",
                *(f"{name} has no such columns: {why}" for name, why in together.items()),
                f"{hardware}The paper used one RTX A6000; its similarity times of NaQ-Feat were taken without synchronisation and compare with nothing.",
            ]
        )
        groups = [("", 2), ("seconds", 5), ("", 3)]
        return [
            findings(study, sentences or [NOTHING]),
            TableView(
                table_name(study),
                f"{self.title}: {study.dataset}",
                columns,
                rows,
                labels=2,
                groups=groups,
                note=note,
            ),
        ]


def _rows(request: Request, dataset: str) -> tuple[tuple[str, str], ...]:
    """A thin budget has no table of diffusion, nor has a graph that is too large for the paper's."""
    without = {("similarity", "naq-diff")} if request.limits.thin else set()
    if dataset in NO_DIFFUSION:
        without = {("similarity", "naq-diff"), ("episodes", "naq-diff")}
    return tuple(row for row in ROWS if row not in without)


def _paper(what: str, dataset: str, kind: str) -> PaperNumber | None:
    if what == "episodes":
        return paper_time("episodes_16000", dataset, kind)
    return paper_time("topk100_list" if dataset in EMBEDDED else "similarity", dataset, kind)


def _stages(result: Mapping[str, Any]) -> list[Entry]:
    if result["stages"] is None:
        return ["–"] * len(STAGES)
    means = [mean(result["stages"][stage]) for stage in STAGES]
    return [Number(seconds, digits=4 if seconds < 0.1 else 2) for seconds in means]


def _words(hardware: Mapping[str, Any]) -> str:
    gpu = f", {hardware['gpu']}" if hardware.get("gpu") else ""
    return f"Hardware: {hardware['processor']}, {hardware['cores']} cores{gpu}. "
