"""``naq reproduce --plan``: what would be computed, for people and for programs."""

from __future__ import annotations

import json
from collections.abc import Sequence

from naq_paper.cells.cell import Cell, titles
from naq_paper.experiments.experiment import Study
from naq_paper.experiments.request import Request
from naq_paper.report.format import counted


def plan_text(studies: Sequence[Study], cells: Sequence[Cell], missing: Sequence[Cell]) -> str:
    """The requests, how many of their cells are done, and every cell that is not."""
    lines = []
    for study in studies:
        if study.dataset == study.request.datasets[0]:
            lines.append(f"{study.experiment.name} on {', '.join(study.request.datasets)}: {study.experiment.question}")
    requests = [study.request for study in studies]
    lines += dict.fromkeys(f"Profile {request.profile}: {request.settings.summary}." for request in requests)
    lines += dict.fromkeys(f"Budget {request.budget}: {request.cost}" for request in requests)
    tried = {cell for study in studies for group in study.groups.values() for cell in group.tried}
    later = (
        f" Tuning: {counted(len(tried), 'candidate')} among them, trainings with what they choose follow."
        if tried
        else ""
    )
    lines.append(f"{counted(len(cells), 'cell')}, {len(cells) - len(missing)} done, {len(missing)} to compute.{later}")
    return "\n".join([*lines, *(f"  {line}" for line in titles(missing))])


def plan_json(requests: Sequence[Request], cells: Sequence[Cell], missing: Sequence[Cell]) -> str:
    """The requests, and their cells in the order in which they are computed; docs/reproduction.md describes it."""
    left = set(missing)
    plan = {
        "requests": [request.to_json() for request in requests],
        "cells": [
            {"title": cell.title, "measurement": cell.measurement, "config": cell.config, "done": cell not in left}
            for cell in cells
        ],
    }
    return json.dumps(plan, indent=2, allow_nan=False)
