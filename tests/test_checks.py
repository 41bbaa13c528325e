"""``naq doctor --check``: every check passes here, and fails where a fast path that it is for is wrong."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch

from naq import checks
from naq.cli import doctor
from naq.nn.rows import SparseRows
from naq.options import imported

FAST = {
    "exact tables by features": (
        "naq.neighbors.feature:inverted_index_topk",
        "naq.neighbors.feature:block_topk",
        "naq.neighbors.vectors:nearest_by_symmetry",
    ),
    "exact tables by diffusion": ("naq.neighbors.diffusion:exact_topk",),
    "receptive fields": (
        "naq.nn.operator:take_field",
        "naq.nn.operator:GraphOperator.propagate_all",
        "naq.nn.local:_sub_graphs",
    ),
    "closed form": ("naq.embedders.closed_form:removal_of", "naq.embedders.closed_form:sharpening_of"),
    "recorded steps": ("naq_scale.cuda_graphs:padded_fields", "naq_scale.cuda_graphs:RecordedSteps._gradients"),
    "approximate tables by features": (
        "naq_scale.near_features:approximate_topk",
        "naq_scale.near_vectors:near_rows",
    ),
    "tables by pushed diffusion": ("naq.neighbors.diffusion:push_topk",),
    "heads": (
        "naq.heads.prototype:PrototypeHead.predict",
        "naq.heads.transductive:TransductiveHead.predict",
        "naq.heads.logistic:LogisticHead.predict",
    ),
    "discriminant without a label": ("naq.classifier.experts:Scatter.leave_one_out",),
}


def wrong(value: Any, ids_too: bool = False) -> Any:
    """The same, but for the first row of every array of floats; of whole numbers too if they are answers."""
    if isinstance(value, tuple):
        return tuple(wrong(one) for one in value)
    if isinstance(value, dict):
        return {name: wrong(one) for name, one in value.items()}
    if isinstance(value, SparseRows):
        return dataclasses.replace(value, data=wrong(value.data))
    if isinstance(value, np.ndarray | torch.Tensor):
        value = value.clone() if isinstance(value, torch.Tensor) else value.copy()
        if "float" in str(value.dtype):
            value[:1] = 1.2 * value[:1] + 0.05
        elif ids_too:
            value[:1] = (value[:1] + 1) % 3
    return value


def test_every_check_passes() -> None:
    assert set(FAST) == set(checks.CHECKS) >= set(checks.ON_CUDA)
    found = checks.check_all()
    assert set(checks.CHECKS) <= set(found) and set(found.values()) == {"ok"}, found


@pytest.mark.parametrize(("name", "path"), [(name, path) for name, paths in FAST.items() for path in paths])
def test_a_wrong_fast_path_is_found(name: str, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, _, target = path.partition(":")
    owner, _, method = target.rpartition(".")
    holder = getattr(imported(module), owner) if owner else imported(module)
    right = getattr(holder, method)

    def falsified(*given: Any, **options: Any) -> Any:
        return wrong(right(*given, **options), ids_too=name == "heads")

    static = owner and isinstance(vars(holder).get(method), staticmethod)
    monkeypatch.setattr(holder, method, staticmethod(falsified) if static else falsified)
    check, allowed = checks.CHECKS[name]
    assert not check("cpu") <= allowed


def test_the_report_names_what_differs_fails_or_is_not_finite(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(device: str) -> float:
        raise RuntimeError("no kernel\nimage")

    found = {"right": (lambda device: 1e-7, 1e-6), "off": (lambda device: 0.5, 1e-6), "broken": (broken, 1.0)}
    monkeypatch.setattr(checks, "CHECKS", {**found, "nan": (lambda device: float("nan"), 1e-6)})
    monkeypatch.setattr(checks, "ON_CUDA", {})
    said = doctor.diagnosis(check=True)
    assert said["checks"]["right"] == "ok" and said["checks"]["off"].startswith("differs by 0.5")
    assert said["checks"]["nan"].startswith("differs by nan") and "\n" not in said["checks"]["broken"]
    (problem,) = said["problems"]
    assert all(name in problem for name in ("off", "broken", "nan")) and "right" not in problem
    assert any("differs by 0.5" in line for line in doctor.report_lines(said))
