"""Perturbations: what every one of them does, and the definition of each, number by number."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from itertools import combinations, count, pairwise
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from scipy.stats import binomtest, chisquare, ks_2samp

import naq
from graphs import random_counts, random_edges
from naq.embedders.closed_form import NaqPlus
from naq.errors import OptionError
from naq.graph import arcs_of
from naq.random import stream
from naq.tasks import ClassSplit
from naq.testing import check_options
from naq.text import NodeTable, SentenceVectors
from naq_paper.perturbations import PERTURBATIONS, apply_perturbation, ceil_of, floor_of, resolve_perturbation
from naq_paper.perturbations.inputs import FeatureNoise, StructureNoise, free_pairs, subsets
from naq_paper.perturbations.labels import Imbalance, LabelNoise, LabelScarcity, balanced_quota, largest

SIZES = (40, 35, 30, 30, 20, 15, 12, 10, 3)
SPLIT = ClassSplit((0, 1, 3, 5, 6, 7), (2,), (4, 8))
NO_SPLIT = ClassSplit((), (), ())
N = sum(SIZES) + 5


def uneven() -> naq.Graph:
    """Uneven classes, five nodes without a label, two kinds of features, weighted arcs, names, cells and text."""
    labels = np.random.default_rng(0).permutation(np.repeat([*range(len(SIZES)), -1], [*SIZES, 5]))
    ends = random_edges(N, 3 * N, seed=1)
    ends = ends[:, ends[0] != ends[1]]
    graph = naq.Graph(
        ends, random_counts(N, 25, seed=2, density=0.2), labels, nodes=N, name="uneven",
        names=[f"node {i}" for i in range(N)], class_names=[f"class {c}" for c in range(len(SIZES))],
        vocab=[f"word {j}" for j in range(25)], blocks=[("words", 20), ("numbers", 5, "sizes")],
        arcs=arcs_of(ends, 1.0 + np.arange(ends.shape[1]), N, directed=True),
    )  # fmt: skip
    cells = {"id": [f"node {i}" for i in range(N)], "note": [f"note {i}" * (i % 3) for i in range(N)]}
    text = SentenceVectors(np.random.default_rng(3).normal(size=(N, 4)).astype(np.float16), "model")
    return graph.with_table(NodeTable.of(cells, name="id", text=["note"])).with_text(text)


GRAPH = uneven()
SOME: dict[str, dict[str, Any]] = {name: {} for name in PERTURBATIONS} | {
    "label-scarcity": {"classes": 0.9, "labels": 0.5}
}
NONE = {
    "feature-noise": {"share": 0.0}, "label-noise": {"share": 0.0}, "label-scarcity": {"classes": 1.0, "labels": 1.0},
    "structure-noise": {"share": 0.0},
}  # fmt: skip
every = pytest.mark.parametrize("name", sorted(PERTURBATIONS))
readings = pytest.mark.parametrize("reading", ["xor", "replace"])
kinds = pytest.mark.parametrize("kind", ["symmetric", "asymmetric"])


def old_ids(smaller: naq.Graph) -> np.ndarray:
    """The node of ``GRAPH`` that each node is, by its name."""
    return np.array([int(title.split()[1]) for title in smaller.names])


def pairs_of(graph: naq.Graph) -> set[tuple[int, int]]:
    return {(int(a), int(b)) for a, b in zip(*graph.adjacency.nonzero()) if a < b}


@every
def test_seeds_decide_and_nothing_else_of_the_graph_is_lost(name):
    def fingerprint(changed):
        given = None if changed.base_labels is None else changed.base_labels.tobytes()
        return changed.graph.hash, given, changed.split, json.dumps(changed.facts, allow_nan=False)

    one, same, other = (apply_perturbation(GRAPH, SPLIT, {"name": name, "seed": s, **SOME[name]}) for s in (3, 3, 4))
    assert fingerprint(one) == fingerprint(same)
    assert (fingerprint(one)[:2] != fingerprint(other)[:2]) == (name != "naq-plus-features"), "its SVD is exact here"
    assert one.facts and one.redraw == (name == "imbalance")
    found, back = one.graph, old_ids(one.graph)
    assert np.array_equal(found.labels, GRAPH.labels[back]), "labels of tasks stay true"
    assert found.name == "uneven" and np.array_equal(found.class_names, GRAPH.class_names)
    if name not in ("naq-plus-features", "feature-noise-smoothed"):
        assert found.stated_blocks == GRAPH.stated_blocks and np.array_equal(found.vocab, GRAPH.vocab)
    was, now = GRAPH.arcs.toarray()[np.ix_(back, back)], found.arcs.toarray()
    added = (found.adjacency.toarray() > 0) & ~(GRAPH.adjacency.toarray()[np.ix_(back, back)] > 0)
    assert np.array_equal(now, np.where(added, 1.0, was)) and added.any() == (name == "structure-noise")
    assert [found.table.row(v) for v in range(len(back))] == [GRAPH.table.row(v) for v in back]
    assert found.table.uses.tolist() == GRAPH.table.uses.tolist() and found.text.model == "model"
    assert np.array_equal(found.text.vectors, GRAPH.text.vectors[back])


def test_smoothed_noise_is_the_same_noise_smoothed():
    given = {"seed": 3, "share": 0.3}
    noisy, found = (
        apply_perturbation(GRAPH, SPLIT, {"name": f"feature-noise{end}", **given}) for end in ("", "-smoothed")
    )
    assert found.facts == noisy.facts
    assert np.array_equal(found.graph.features, NaqPlus(noisy.graph.without_labels(), seed=3).smoothed())


@pytest.mark.parametrize("name", list(NONE))
def test_no_share_changes_nothing(name):
    changed = apply_perturbation(GRAPH, SPLIT, {"name": name, **NONE[name]})
    assert changed.graph.hash == GRAPH.hash and not changed.redraw and changed.split in (None, SPLIT)
    if changed.base_labels is not None:
        assert np.array_equal(changed.base_labels, np.where(np.isin(GRAPH.labels, SPLIT.base), GRAPH.labels, -1))


@every
def test_every_option_is_written_out(name):
    assert set(resolve_perturbation({"name": name})) == {"name", "seed", *PERTURBATIONS[name].defaults}
    assert PERTURBATIONS[name].summary.endswith(".")


@every
def test_wrong_options_are_named(name):
    check_options(PERTURBATIONS[name])


def test_unknown_perturbations_and_options_that_exclude_each_other():
    for name, options, word in (
        ("label-noize", {}, "label-noise"),
        ("label-scarcity", {"least": 7}, "least"),
        ("imbalance", {"kind": "balanced", "tail": 1, "top": 0.0}, "tail"),
    ):
        with pytest.raises(OptionError, match=word):
            apply_perturbation(GRAPH, SPLIT, {"name": name, **options})


def test_shares_are_taken_as_written():
    assert 0.07 * 100 > 7 and ceil_of(0.07, 100) == 7 and ceil_of(0.07, 101) == 8
    assert 0.29 * 100 < 29 and floor_of(0.29, 100) == 29
    assert floor_of(0.2, 167) == 33 and floor_of(0.2, 70) == 14, "the paper's two graphs"


# Features.


def dense_noise(rows: np.ndarray, reading: str, random: np.random.Generator) -> np.ndarray:
    """The definition, number by number."""
    out = rows.copy()
    for i, row in enumerate(rows):
        mean = np.mean(row != 0)
        for j, value in enumerate(row):
            b = random.random() < mean
            out[i, j] = float(b) if reading == "replace" else ((0.0 if value else 1.0) if b else value)
    return out


@pytest.mark.parametrize("share", [0.1, 1.0])
def test_flips_of_zeros_and_of_counts(share):
    """Counts of 2 and more here, so that a 1 is a zero that flipped."""
    doubled = GRAPH.with_features(GRAPH.features * 2)
    found = FeatureNoise(share=share).apply(doubled, SPLIT, 0)
    before, after = doubled.features.toarray(), found.graph.features.toarray()
    counts = {"non_zeros": np.count_nonzero(after), "non_zeros_before": np.count_nonzero(before)}
    assert found.facts == {"nodes": round(share * 200), **counts} and found.graph.features.has_canonical_format
    changed = before != after
    assert 0 < changed.any(axis=1).sum() <= round(share * 200)
    assert (after[changed & (before == 0)] == 1).all() and (after[changed & (before != 0)] == 0).all()
    assert not changed[(before != 0).sum(axis=1) == 0].any(), "an empty row has mean 0"


@readings
@pytest.mark.parametrize("filled", [1, 9, 12])
def test_draws_are_those_of_the_dense_definition(reading, filled):
    """4,000 copies of a row: each dimension flips as often as its mean says, and as many together as independent
    draws."""
    row = np.zeros(12)
    row[np.random.default_rng(filled).permutation(12)[:filled]] = 3
    rows = np.tile(row, (4000, 1))
    graph = naq.Graph(sp.csr_array((4000, 4000)), sp.csr_array(rows))
    after = FeatureNoise(share=1.0, reading=reading).apply(graph, NO_SPLIT, 0).graph.features.toarray()
    assert set(np.unique(after)) <= {0, 1, 3} and (reading == "xor" or not (after == 3).any())
    for column in range(12):
        flipped = (after[:, column] != row[column]).sum() if reading == "xor" else (after[:, column] == 1).sum()
        assert binomtest(int(flipped), 4000, filled / 12).pvalue > 1e-4
    slow = dense_noise(rows, reading, np.random.default_rng(1))
    for value in (1, 3):
        assert ks_2samp(*((a == value).sum(axis=1) for a in (after, slow))).pvalue > 1e-3
    pair = [np.mean((a[:, 0] != row[0]) & (a[:, 1] != row[1])) for a in (after, slow)]
    assert pair[0] == pytest.approx(pair[1], abs=0.045)


@readings
def test_dense_and_sparse_features_get_the_same_noise(reading):
    values = np.random.default_rng(0).standard_normal((50, 8)) * (np.random.default_rng(1).random((50, 8)) < 0.6)
    graphs = [naq.Graph(sp.csr_array((50, 50)), f) for f in (values, sp.csr_array(values))]
    assert [graph.sparse_features for graph in graphs] == [False, True]
    dense, sparse = (FeatureNoise(share=0.5, reading=reading).apply(g, NO_SPLIT, 4).graph for g in graphs)
    assert np.array_equal(dense.features, sparse.features.toarray())
    assert 0 < (dense.features != graphs[0].features).any(axis=1).sum() <= 25
    full = naq.Graph(sp.csr_array((10, 10)), np.random.default_rng(0).standard_normal((10, 4)))
    after = FeatureNoise(share=0.5, reading=reading).apply(full, NO_SPLIT, 0).graph.features
    turned = (after == (0 if reading == "xor" else 1)).all(axis=1)
    assert turned.sum() == 5 and (after[~turned] == full.features[~turned]).all(), "a row without zeros turns over"


@readings
def test_feature_noise_is_nested(reading):
    """2,500 nodes: several blocks of draws."""
    graph = naq.Graph(sp.csr_array((2500, 2500)), random_counts(2500, 12, seed=5, density=0.3))
    levels = [FeatureNoise(share=s, reading=reading).apply(graph, NO_SPLIT, 0).graph for s in (0.0, 0.1, 0.5, 0.95)]
    start = graph.features.toarray()
    for low, high in pairwise(level.features.toarray() for level in levels):
        noisy = (low != start).any(axis=1)
        assert (high != start).any(axis=1)[noisy].all() and np.array_equal(low[noisy], high[noisy])
        assert (high != start).any(axis=1).sum() > noisy.sum()


def test_subsets_have_their_size_and_are_uniform():
    sizes, counts = np.tile([5, 0, 7, 4, 6, 3], 700), np.tile([2, 0, 0, 4, 4, 1], 700)
    row, number = subsets(np.random.default_rng(0), counts, sizes)
    assert np.array_equal(np.bincount(row, minlength=len(sizes)), counts)
    assert (number >= 0).all() and (number < sizes[row]).all()
    assert len(set(zip(row.tolist(), number.tolist()))) == len(row)
    for place, (size, wanted) in enumerate(((5, 2), (0, 0), (7, 0), (4, 4), (6, 4), (3, 1))):
        if 0 < wanted < size:
            chosen = number[row % 6 == place].reshape(-1, wanted)
            found = [int((chosen == subset).all(axis=1).sum()) for subset in combinations(range(size), wanted)]
            assert sum(found) == 700 and chisquare(found).pvalue > 1e-3


def test_features_of_the_closed_form_are_its_vectors_and_read_no_label():
    changed = apply_perturbation(GRAPH, SPLIT, {"name": "naq-plus-features", "seed": 3})
    bare = apply_perturbation(GRAPH.without_labels(), SPLIT, {"name": "naq-plus-features", "seed": 3})
    assert np.allclose(changed.graph.features, naq.embed(GRAPH, "naq-plus", seed=3), atol=1e-6)
    assert np.array_equal(changed.graph.features, bare.graph.features)
    assert changed.facts == {"features": changed.graph.num_features, "features_before": 25}


# Edges.


@pytest.mark.parametrize("first", [8, 65_536])
@pytest.mark.parametrize("share", [0.1, 2.0])
def test_pairs_are_those_drawn_one_by_one(first, share):
    present, new, wanted, n = pairs_of(GRAPH), [], round(share * GRAPH.num_edges), GRAPH.num_nodes
    for block in count():
        for a, b in stream(3, "change/structure-noise", block).integers(0, n, (first << block, 2)):
            pair = (int(min(a, b)), int(max(a, b)))
            if len(new) < wanted and a != b and pair not in present:
                present.add(pair)
                new.append(pair[0] * n + pair[1])
        if len(new) == wanted:
            break
    old = np.array(sorted(a * n + b for a, b in pairs_of(GRAPH)))
    assert free_pairs(n, old, wanted, 3, first=first).tolist() == new
    if first == 65_536:
        found = StructureNoise(share=share).apply(GRAPH, SPLIT, 3)
        assert pairs_of(found.graph) == present and found.facts["added"] == wanted
        assert found.facts["homophily"] == found.graph.homophily()


def test_every_free_pair_is_as_likely():
    """Two paths of three nodes and one alone: 17 free pairs, of which two are taken."""
    graph = naq.Graph([[0, 1, 3, 4], [1, 2, 4, 5]], nodes=7)
    free = [a * 7 + b for a, b in combinations(range(7), 2) if (a, b) not in pairs_of(graph)]
    old = np.array(sorted(a * 7 + b for a, b in pairs_of(graph)))
    found = np.concatenate([free_pairs(7, old, 2, seed, first=16) for seed in range(1700)])
    assert chisquare([int((found == code).sum()) for code in free]).pvalue > 1e-3 and np.isin(found, free).all()


def test_edges_are_nested_and_end_with_all_pairs():
    levels = [pairs_of(StructureNoise(share=s).apply(GRAPH, SPLIT, 0).graph) for s in (0.0, 0.1, 0.3, 1.0)]
    assert all(low < high for low, high in pairwise(levels))
    path = naq.Graph([[0, 1, 2], [1, 2, 3]], nodes=4)
    all_pairs = StructureNoise(share=1.0).apply(path, NO_SPLIT, 0)
    assert all_pairs.graph.num_edges == 6 and all_pairs.facts["homophily"] is None
    with pytest.raises(OptionError, match="share"):
        StructureNoise(share=1.5).apply(path, NO_SPLIT, 0)


# Labels.


@pytest.mark.parametrize(("classes", "labels"), [(1.0, 0.5), (0.5, 0.2), (0.9, 1.0), (0.0, 0.0)])
def test_label_scarcity_keeps_its_classes_and_labels(classes, labels):
    found = LabelScarcity(classes=classes, labels=labels).apply(GRAPH, SPLIT, 0)
    stay = found.split.base
    assert set(stay) <= set(SPLIT.base) and len(stay) == max(5, math.ceil(classes * 6))
    assert (found.split.valid, found.split.test) == (SPLIT.valid, SPLIT.test)
    sizes = [min(SIZES[c], max(9, math.ceil(labels * SIZES[c]))) if c in stay else 0 for c in range(9)]
    assert [int((found.base_labels == c).sum()) for c in range(9)] == sizes
    given = found.base_labels >= 0
    assert np.array_equal(found.base_labels[given], GRAPH.labels[given])
    before = sum(SIZES[c] for c in SPLIT.base)
    facts = {"classes": len(stay), "classes_before": 6, "labels": sum(sizes), "labels_before": before}
    assert found.facts == facts


def test_scarce_labels_are_nested_drawn_class_by_class_and_any_node_can_stay():
    levels = [LabelScarcity(classes=s, labels=s, least=1).apply(GRAPH, SPLIT, 1) for s in (0.2, 0.5, 0.8, 1.0)]
    for low, high in pairwise(levels):
        assert set(low.split.base) < set(high.split.base)
        assert set(np.flatnonzero(low.base_labels >= 0)) < set(np.flatnonzero(high.base_labels >= 0))
    fewer = GRAPH.with_labels(np.where(GRAPH.labels == 0, -1, GRAPH.labels))
    whole, less = (LabelScarcity(labels=0.5).apply(g, SPLIT, 0).base_labels for g in (GRAPH, fewer))
    assert np.array_equal(np.where(whole == 0, -1, whole), less)
    found = [LabelScarcity(classes=0.5, labels=0.5, least=1).apply(GRAPH, SPLIT, s) for s in range(60)]
    times, base = np.sum([f.base_labels >= 0 for f in found], axis=0), np.isin(GRAPH.labels, SPLIT.base)
    assert (times[base] > 0).all() and not times[~base].any() and times[GRAPH.labels == 0].max() < 40


@kinds
@pytest.mark.parametrize("share", [0.1, 0.5, 1.0])
def test_label_noise_is_what_a_loop_finds(kind, share):
    found = LabelNoise(share=share, kind=kind).apply(GRAPH, SPLIT, 2)
    assert found.graph is GRAPH and found.split is None
    restored = 0
    for c in SPLIT.base:
        nodes = np.flatnonzero(GRAPH.labels == c).tolist()
        uniform = stream(2, "change/label-noise/flip", c).random(len(nodes)).tolist()
        wrong = {i: u for i, u in zip(nodes, uniform) if u < share}
        while wrong and len(nodes) - len(wrong) < 9:
            del wrong[max(wrong, key=wrong.__getitem__)]
            restored += 1
        others = set(found.base_labels[list(wrong)].tolist())
        assert c not in others and others <= set(SPLIT.base) and (kind == "symmetric" or len(others) <= 1)
        assert all(found.base_labels[i] == c for i in nodes if i not in wrong)
    base = np.isin(GRAPH.labels, SPLIT.base)
    assert (found.base_labels[~base] == -1).all()
    wrong = int((found.base_labels != GRAPH.labels)[base].sum())
    counts = {"labels": int(base.sum()), "wrong": wrong, "wrong_share": wrong / base.sum(), "restored": restored}
    assert found.facts == counts and (restored > 0) == (share >= 0.5)


def test_asymmetric_label_noise_is_one_cycle():
    for seed in range(20):
        given = LabelNoise(share=1.0, kind="asymmetric", keep=1).apply(GRAPH, SPLIT, seed).base_labels
        to = {c: int(next(x for x in given[GRAPH.labels == c] if x != c)) for c in SPLIT.base}
        met = [SPLIT.base[0]]
        while len(met) < len(SPLIT.base):
            met.append(to[met[-1]])
        assert set(met) == set(SPLIT.base) and to[met[-1]] == met[0]


@kinds
def test_wrong_labels_are_nested_and_drawn_class_by_class(kind):
    levels = [LabelNoise(share=s, kind=kind).apply(GRAPH, SPLIT, 0).base_labels for s in (0.1, 0.3, 0.6, 1.0)]
    for low, high in pairwise(levels):
        wrong = (low != GRAPH.labels) & (low >= 0)
        assert np.array_equal(low[wrong], high[wrong]) and wrong.sum() < (high != GRAPH.labels)[high >= 0].sum()
    fewer = GRAPH.with_labels(np.where((GRAPH.labels == 0) & (np.arange(N) % 2 == 0), -1, GRAPH.labels))
    whole, less = (LabelNoise(share=0.4, kind=kind).apply(g, SPLIT, 0).base_labels for g in (GRAPH, fewer))
    assert np.array_equal(whole[GRAPH.labels != 0], less[GRAPH.labels != 0])
    with pytest.raises(OptionError, match="base classes"):
        LabelNoise(kind=kind).apply(GRAPH, ClassSplit((0,), (1,), (2,)), 0)


# Class sizes.


@pytest.mark.parametrize(("options", "whole"), [
    ({}, {0}), ({"top": 0.34}, {0, 1, 2}), ({"kind": "extreme"}, {0, 1, 2, 3, 4}),
    ({"kind": "extreme", "heads": 2, "tail": 4}, {0, 1}), ({"top": 0.5, "per": "part"}, {0, 1, 3, 4}),
    ({"kind": "extreme", "heads": 1, "per": "part"}, {0, 2, 4}), ({"top": 1.0}, set(range(9))),
])  # fmt: skip
def test_imbalance_keeps_heads_and_tails(options, whole):
    found = Imbalance(**options).apply(GRAPH, SPLIT, 0)
    tail = int(options.get("tail", 10))
    kept = [int((found.graph.labels == c).sum()) for c in range(9)]
    assert kept == [n if c in whole else min(tail, n) for c, n in enumerate(SIZES)]
    assert found.facts["classes_whole"] == sum(a == b for a, b in zip(SIZES, kept))
    assert found.facts["nodes"] == sum(kept) and found.facts["unlabelled_left_out"] == 5
    assert found.facts["classes_left_out"] == [c for c in range(9) if kept[c] < 9]
    for part in ("base", "valid", "test"):
        assert found.split.part(part) == tuple(c for c in SPLIT.part(part) if kept[c] >= 9)


@pytest.mark.parametrize("kind", ["pareto", "extreme", "balanced"])
def test_the_sub_graph_is_the_induced_one(kind):
    found = Imbalance(kind=kind).apply(GRAPH, SPLIT, 1)
    old, dense = old_ids(found.graph), GRAPH.adjacency.toarray()
    assert (np.diff(old) > 0).all()
    expected = dense[old][:, old]
    assert np.array_equal(found.graph.adjacency.toarray(), expected)
    assert np.array_equal(found.graph.features.toarray(), GRAPH.features.toarray()[old])
    assert found.facts["edges"] == expected.sum() / 2
    assert found.facts["mean_degree"] == pytest.approx(expected.sum(axis=1).mean())
    assert found.facts["isolated_share"] == pytest.approx((expected.sum(axis=1) == 0).mean())


def test_more_of_the_tail_holds_what_less_of_it_holds():
    few, more, other = (
        set(old_ids(Imbalance(tail=t).apply(GRAPH, SPLIT, s).graph)) for t, s in ((9, 0), (12, 0), (9, 1))
    )
    assert few < more and few != other
    classes, sizes = np.array([2, 5, 7, 9]), np.array([3, 8, 8, 3])
    assert largest(classes, sizes, 1).tolist() == [5] and largest(classes, sizes, 3).tolist() == [5, 7, 2]


@pytest.mark.parametrize("like", ["pareto", "extreme"])
@pytest.mark.parametrize("per", ["graph", "part"])
def test_the_control_keeps_as_many_nodes(like, per):
    uneven = Imbalance(kind=like, per=per).apply(GRAPH, SPLIT, 0).graph
    control = Imbalance(kind="balanced", like=like, per=per).apply(GRAPH, SPLIT, 0).graph
    assert control.num_nodes == uneven.num_nodes
    assert np.bincount(control.labels)[:8].min() >= 9 and (control.labels == 8).sum() == 3


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(1, 60), min_size=1, max_size=12), st.integers(1, 15), st.floats(0, 1))
def test_quota_is_one_share_of_all_that_are_not_held(sizes, keep, where):
    least = [min(keep, n) for n in sizes]
    total = round(sum(least) + where * (sum(sizes) - sum(least)))
    quota = balanced_quota(np.array(sizes), total, keep).tolist()
    assert sum(quota) == total and all(low <= q <= n for low, q, n in zip(least, quota, sizes))
    free, share = list(range(len(sizes))), Fraction(0)
    while free:
        rest = total - sum(low for c, low in enumerate(least) if c not in free)
        share = Fraction(rest, sum(sizes[c] for c in free))
        below = [c for c in free if share * sizes[c] < least[c]]
        if not below:
            break
        free = [c for c in free if c not in below]
    for c in range(len(sizes)):
        assert abs(quota[c] - share * sizes[c]) < 1 if c in free else quota[c] == least[c]
    up = [share * sizes[c] % 1 for c in free if quota[c] > share * sizes[c]]
    down = [share * sizes[c] % 1 for c in free if quota[c] < share * sizes[c]]
    assert not up or not down or min(up) >= max(down), "the largest remainders are rounded up"
