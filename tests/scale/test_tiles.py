"""Products with A_hat that is not formed, against the matrix."""

import numpy as np
import pytest

from graphs import random_graph
from naq_scale.tiles import multiply


@pytest.mark.parametrize("width", [1, 16, 21, 64, 150])
def test_a_product_is_that_of_the_matrix(width):
    graph = random_graph(120, 900)
    held = np.random.default_rng(0).standard_normal((120, width)).astype(np.float32)
    kept, dense = held.copy(), graph.normalized_adjacency().toarray().astype(np.float64)
    assert np.allclose(multiply(graph, held), dense @ held, atol=1e-5) and np.array_equal(held, kept)
    turned = np.asfortranarray(held)
    assert np.array_equal(multiply(graph, turned), multiply(graph, held))


def test_nodes_without_edges_stay_where_they_are():
    graph = random_graph(50, 12)
    held = np.random.default_rng(0).standard_normal((50, 64)).astype(np.float32)
    alone = graph.degrees == 0
    assert alone.any() and np.array_equal(multiply(graph, held)[alone], held[alone])
