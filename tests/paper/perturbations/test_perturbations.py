"""What every perturbation does."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import naq
from naq.errors import OptionError
from naq.tasks import ClassSplit
from naq_paper.perturbations import (
    PERTURBATIONS,
    Perturbed,
    apply_perturbation,
    resolve_perturbation,
)
from naq_paper.perturbations.base import ceil_of, floor_of

NAMES = ["feature-noise", "imbalance", "label-noise", "label-scarcity", "structure-noise"]
SOME: dict[str, dict[str, Any]] = {name: {} for name in NAMES} | {"label-scarcity": {"classes": 0.9, "labels": 0.5}}
NONE: dict[str, dict[str, Any]] = {
    "feature-noise": {"share": 0.0},
    "label-noise": {"share": 0.0},
    "label-scarcity": {"classes": 1.0, "labels": 1.0},
    "structure-noise": {"share": 0.0},
}
every = pytest.mark.parametrize("name", NAMES)


def fingerprint(changed: Perturbed) -> tuple[str, bytes | None, ClassSplit | None, str]:
    given = None if changed.base_labels is None else changed.base_labels.tobytes()
    return changed.graph.hash, given, changed.split, json.dumps(changed.facts, allow_nan=False)


def test_all_are_registered() -> None:
    assert set(NAMES) <= set(PERTURBATIONS)


@every
def test_seeds_decide(name: str, graph: naq.Graph, split: ClassSplit) -> None:
    """Equal for a seed, different for another; facts are JSON; the names stay with their graph."""
    one, same, other = (apply_perturbation(graph, split, {"name": name, "seed": s, **SOME[name]}) for s in (3, 3, 4))
    assert fingerprint(one) == fingerprint(same)
    assert fingerprint(one)[:2] != fingerprint(other)[:2]
    assert one.facts
    for attribute in ("class_names", "vocab"):
        assert np.array_equal(getattr(one.graph, attribute), getattr(graph, attribute))
    assert one.graph.name == "uneven" and one.graph.names is not None
    rows = {title: row for row, title in enumerate(graph.names.tolist())}
    back = [rows[title] for title in one.graph.names.tolist()]
    assert np.array_equal(one.graph.labels, graph.labels[back]), "labels of tasks stay true"


@pytest.mark.parametrize("name", list(NONE))
def test_no_share_changes_nothing(name: str, graph: naq.Graph, split: ClassSplit) -> None:
    changed = apply_perturbation(graph, split, {"name": name, **NONE[name]})
    assert changed.graph.hash == graph.hash and not changed.redraw
    assert changed.split in (None, split)
    if changed.base_labels is not None:
        assert np.array_equal(changed.base_labels, np.where(np.isin(graph.labels, split.base), graph.labels, -1))


@every
def test_every_option_is_written_out(name: str) -> None:
    assert set(resolve_perturbation({"name": name})) == {"name", "seed", *PERTURBATIONS[name].defaults}
    assert PERTURBATIONS[name].summary.endswith(".")


@pytest.mark.parametrize(
    ("perturbation", "message"),
    [
        ({"name": "label-noize"}, "there is no perturbation 'label-noize'; did you mean label-noise"),
        ({"name": "label-noise", "shares": 0.1}, "label-noise has no option 'shares'; did you mean share"),
        ({"name": "label-noise", "share": 1.5}, r"option share of label-noise is 1\.5; expected at least 0 and at most 1"),
        ({"name": "label-noise", "kind": "symetric"}, "option kind of label-noise is 'symetric'; did you mean symmetric"),
        ({"name": "label-noise", "keep": 0}, "option keep of label-noise is 0; expected at least 1"),
        ({"name": "label-scarcity", "classes": -0.1}, r"option classes of label-scarcity is -0\.1"),
        ({"name": "label-scarcity", "labels": 2.0}, r"option labels of label-scarcity is 2\.0"),
        ({"name": "label-scarcity", "least": 7}, "keeps at least 7 base classes, but the split has 6; lower least"),
        ({"name": "imbalance", "kind": "paretto"}, "option kind of imbalance is 'paretto'; did you mean pareto"),
        ({"name": "imbalance", "like": "balanced"}, "option like of imbalance is 'balanced'; expected one of extreme, pareto"),
        ({"name": "imbalance", "per": "class"}, "option per of imbalance is 'class'"),
        ({"name": "imbalance", "top": 1.1}, r"option top of imbalance is 1\.1"),
        ({"name": "imbalance", "tail": 0}, "option tail of imbalance is 0; expected at least 1"),
        ({"name": "imbalance", "kind": "balanced", "tail": 1, "top": 0.0}, "keep 9 nodes in 9 classes, but 9 of each .* are 75"),
        ({"name": "structure-noise", "share": -1.0}, r"option share of structure-noise is -1\.0; expected at least 0\.$"),
        ({"name": "structure-noise", "share": 1e9}, "to graph 'uneven', but only 19,.* pairs of its nodes have none; lower share"),
        ({"name": "feature-noise", "share": 1.01}, r"option share of feature-noise is 1\.01"),
        ({"name": "feature-noise", "reading": "flip"}, "option reading of feature-noise is 'flip'; expected one of replace, xor"),
    ],
)  # fmt: skip
def test_bad_options(perturbation: dict[str, Any], message: str, graph: naq.Graph, split: ClassSplit) -> None:
    with pytest.raises(OptionError, match=message):
        apply_perturbation(graph, split, perturbation)


def test_shares_are_taken_as_written() -> None:
    assert 0.07 * 100 > 7 and ceil_of(0.07, 100) == 7 and ceil_of(0.07, 101) == 8
    assert 0.29 * 100 < 29 and floor_of(0.29, 100) == 29
    assert floor_of(0.2, 167) == 33 and floor_of(0.2, 70) == 14, "the paper's two graphs"
