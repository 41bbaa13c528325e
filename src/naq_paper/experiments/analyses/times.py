"""Times of similarity and of 16,000 episodes, after a warm-up, with the device synchronised."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import mean
from typing import Any

from naq_paper.experiments.captions import NOTHING, findings, table_name, value_of
from naq_paper.experiments.experiment import Experiment, Study
from naq_paper.experiments.names import KINDS
from naq_paper.experiments.paper import paper_time
from naq_paper.experiments.request import Request
from naq_paper.experiments.seed_groups import Key, SeedGroup
from naq_paper.experiments.views import Entry, Number, TableView, View
from naq_paper.measurements.times import STAGES, times_cell

TITLES = {"similarity": "table of the 100 most similar nodes", "episodes": "16,000 episodes"}


@dataclass(frozen=True, kw_only=True, eq=False)
class Times(Experiment):
    """Seconds of each stage, with the paper's.

    Attributes:
        neighbors: per node that are found.
        repeats: timed calls; a thin budget has one.
        embedded: graphs whose features are embeddings, compared by Euclidean distance.
        no_diffusion: graphs that are too large for the paper's diffusion.
    """

    neighbors: int
    repeats: int
    embedded: tuple[str, ...]
    no_diffusion: tuple[str, ...]

    def cells(self, request: Request, dataset: str) -> dict[Key, SeedGroup]:
        """A thin budget has no table of diffusion, nor has a graph that is too large for the paper's."""
        large, thin = dataset in self.no_diffusion, request.limits.thin
        rows = [("similarity", "naq-feat"), ("similarity", "naq-diff")]
        rows += [("episodes", "naq-feat"), ("episodes", "naq-diff"), ("episodes", "supervised")]
        settings: dict[str, Any] = {
            "k": self.neighbors,
            "features": request.features,
            "device": request.device,
            "repeats": 1 if thin else self.repeats,
            "metric": "euclidean" if dataset in self.embedded else "cosine",
        }
        return {
            (what, kind): SeedGroup.of(times_cell(dataset, what=what, kind=kind, **settings))
            for what, kind in rows
            if kind != "naq-diff" or not (large or (thin and what == "similarity"))
        }

    def figures(self, study: Study) -> list[View]:
        rows: list[list[Entry]] = []
        sentences: list[str] = []
        hardware = ""
        together: dict[str, str] = {}
        for key in study.groups:
            what, kind = key
            table = "topk100_list" if study.dataset in self.embedded else "similarity"
            paper = value_of(paper_time("episodes_16000" if what == "episodes" else table, study.dataset, kind))
            r = study.result(key)
            if r is None:
                rows.append([TITLES[what], KINDS[kind], study.missing(key, paper), *("–",) * 7])
                continue
            machine = r["hardware"]
            gpu = f", {machine['gpu']}" if machine.get("gpu") else ""
            hardware = f"Hardware: {machine['processor']}, {machine['cores']} cores{gpu}. "
            more = {"seeds": len(r["seconds"]), "paper": paper, "keys": study.keys(key)}
            rows.append(
                [
                    *(TITLES[what], KINDS[kind]),
                    _seconds(r["mean"], r["mean"], spread=r["sd"], **more),
                    _seconds(r["min"], r["mean"]),
                    *_stages(r),
                    *(str(r["computed_on"]), str(r["threads"]["numba"])),
                    "–" if r["load"] is None else f"{r['load']:.1f}",
                ]
            )
            sentences.append(f"{TITLES[what]}, {KINDS[kind]}: {r['mean']:.3g} s ({r['parts']}).")
            if what == "similarity" and r["stages"] is None:
                together[KINDS[kind]] = str(r["why_no_stages"])
        columns = ["what", "kind", "seconds", "best", *STAGES, "on", "threads", "load before"]
        notes = (
            "Seconds: mean over timed calls after one warm-up, device synchronised; in parentheses the standard "
            "deviation over these calls. It is not an interval, "
            "and neither tasks nor seeds are in it.",
            "Compute, selection (top-k) and transfer are means over as many further calls that wait for the "
            "device after each; their sum may be above the total.",
            *(f"{name} has no such columns: {why}" for name, why in together.items()),
            f"{hardware}The paper used one RTX A6000; its similarity times of NaQ-Feat were taken without "
            "synchronisation and compare with nothing.",
        )
        groups, title = [("", 2), ("seconds", 5), ("", 3)], f"{self.title}: {study.dataset}"
        table_view = TableView(table_name(study), title, columns, rows, labels=2, groups=groups, note=" ".join(notes))
        return [findings(study, sentences or [NOTHING]), table_view]


def _seconds(value: float, scale: float, **more: Any) -> Number:
    return Number(value, digits=4 if scale < 0.1 else 2, **more)


def _stages(result: Mapping[str, Any]) -> list[Entry]:
    if result["stages"] is None:
        return ["–"] * len(STAGES)
    return [_seconds(value, value) for value in (mean(result["stages"][stage]) for stage in STAGES)]
