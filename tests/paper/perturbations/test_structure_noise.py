from __future__ import annotations

from itertools import count, pairwise

import numpy as np
import pytest
from scipy.stats import chisquare

import naq
from naq.errors import OptionError
from naq.random import stream
from naq.tasks import ClassSplit
from naq_paper.perturbations import inputs as module
from naq_paper.perturbations.inputs import StructureNoise

NO_SPLIT = ClassSplit((), (), ())


def edges(graph: naq.Graph) -> set[tuple[int, int]]:
    row, col = graph.adjacency.nonzero()
    return {(int(a), int(b)) for a, b in zip(row, col) if a < b}


def one_by_one(graph: naq.Graph, wanted: int, seed: int, first: int) -> set[tuple[int, int]]:
    """Pairs of the same draws, accepted one after the other."""
    present, new = edges(graph), set()
    for block in count():
        for a, b in stream(seed, "change/structure-noise", block).integers(0, graph.num_nodes, (first << block, 2)):
            pair = (int(min(a, b)), int(max(a, b)))
            if len(new) < wanted and a != b and pair not in present:
                new.add(pair)
        if len(new) == wanted:
            return new
    raise AssertionError


@pytest.mark.parametrize("first", [8, 65_536])
@pytest.mark.parametrize("share", [0.1, 0.3, 2.0])
def test_pairs_are_those_drawn_one_by_one(
    first: int, share: float, graph: naq.Graph, split: ClassSplit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FIRST", first)
    found = StructureNoise(share=share).apply(graph, split, 3)
    wanted = round(share * graph.num_edges)
    assert edges(found.graph) == edges(graph) | one_by_one(graph, wanted, 3, first)
    assert found.graph.num_edges == graph.num_edges + wanted
    assert set(found.graph.changes.items()) == {
        ("self_loops_dropped", 0), ("duplicates_merged", 0), ("made_undirected", found.graph.num_edges)
    }  # fmt: skip
    assert np.array_equal(found.graph.names, graph.names) and np.array_equal(found.graph.labels, graph.labels)
    assert (found.graph.features != graph.features).nnz == 0
    assert found.facts["added"] == wanted and found.facts["homophily"] == found.graph.homophily()
    assert found.base_labels is None and found.split is None and not found.redraw


def test_edges_are_nested(graph: naq.Graph, split: ClassSplit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRST", 16)
    levels = [edges(StructureNoise(share=s).apply(graph, split, 0).graph) for s in (0.0, 0.1, 0.3, 1.0)]
    assert all(low < high for low, high in pairwise(levels))


def test_every_free_pair_is_as_likely(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two paths of three nodes and one alone: 17 free pairs, of which two are taken."""
    monkeypatch.setattr(module, "FIRST", 16)
    graph = naq.Graph([[0, 1, 3, 4], [1, 2, 4, 5]], nodes=7)
    times = dict.fromkeys(((a, b) for a in range(7) for b in range(a + 1, 7) if (a, b) not in edges(graph)), 0)
    for seed in range(1700):
        for pair in edges(StructureNoise(share=0.5).apply(graph, NO_SPLIT, seed).graph) - edges(graph):
            times[pair] += 1
    assert sum(times.values()) == 3400 and len(times) == 17
    assert chisquare(list(times.values())).pvalue > 1e-3


def test_all_pairs_and_no_more() -> None:
    graph = naq.Graph([[0, 1, 2], [1, 2, 3]], nodes=4)
    assert StructureNoise(share=1.0).apply(graph, NO_SPLIT, 0).graph.num_edges == 6
    with pytest.raises(OptionError, match=r"add 1\.5 x 3 edges to graph 'graph', but only 3 pairs"):
        StructureNoise(share=1.5).apply(graph, NO_SPLIT, 0)
    assert StructureNoise(share=1.0).apply(graph, NO_SPLIT, 0).facts["homophily"] is None


def test_counts_on_debian(debian: tuple[naq.Graph, ClassSplit]) -> None:
    graph, split = debian
    found = StructureNoise(share=0.3).apply(graph, split, 0)
    assert found.facts["added"] == round(0.3 * graph.num_edges) == found.graph.num_edges - graph.num_edges
    assert (graph.adjacency > found.graph.adjacency).nnz == 0 and found.graph.adjacency.diagonal().sum() == 0
    assert found.facts["homophily"] < found.facts["homophily_before"]
