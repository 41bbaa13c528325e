"""The episodes of a run, and the tasks that choose its checkpoint without labels."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

import methods_under_test as suite
import naq
from naq.errors import OptionError
from naq.methods import EPISODE_KINDS, get_method
from naq.neighbors.clusters import centres
from naq.run.config import RunConfig
from naq.run.episodes import DEFAULTS, draw_episodes, episode_options
from naq.run.evaluate import CLUSTERS, clusters_of, label_free_tasks

GRAPH = suite.community_graph()
kinds = pytest.mark.parametrize("kind", list(EPISODE_KINDS))
both = pytest.mark.parametrize("kind", ["naq-feat", "naq-diff"])


def draw(kind, given=None, graph=GRAPH, **how):
    config = RunConfig.resolve(f"{kind}/protonet", episode=given, **{"way": 2, "episodes": 30} | how)
    return draw_episodes(config, graph, suite.SPLIT, cache=None)


def table(kind, k):
    make = naq.feature_neighbors if kind == "naq-feat" else naq.diffusion_neighbors
    return make(GRAPH.without_labels(), k)


def same(one, two):
    return all(np.array_equal(getattr(one, name), getattr(two, name)) for name in ("support", "query", "mask"))


def test_every_kind_has_options():
    assert set(DEFAULTS) == set(EPISODE_KINDS)
    assert all(options["way"] == 0 for options in DEFAULTS.values())


@kinds
def test_way_is_that_of_the_tasks_unless_given(kind):
    assert draw(kind).way == 2
    assert draw(kind, {"way": 3}).way == 3
    assert draw(kind, {"way": 3}, way=7).way == 3


@both
def test_neighbours_as_queries(kind):
    assert same(draw(kind), naq.naq_episodes(table(kind, 10), way=2, queries=10, count=30))
    assert draw(kind, shot=5).shot == 1, "one shot, whatever the tasks have"


@both
@pytest.mark.parametrize(
    ("given", "k"),
    [
        ({"shot": 3, "queries": 4}, 6),
        ({"queries": 4, "apart": 12}, 12),
        ({"shot": 2, "queries": 6, "apart": 5, "drop_overlap": True}, 7),
        ({"queries": 6, "drop_random": True}, 6),
    ],
)
def test_options_reach_the_draw_and_the_table_is_wide_enough(kind, given, k):
    found = draw(kind, given)
    assert found.info["table"]["k"] == k
    assert same(found, naq.naq_episodes(table(kind, k), way=2, count=30, **given))


@both
@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"queries": 141}, "queries"),
        ({"queries": 140, "shot": 2}, "queries"),
        ({"apart": 141}, "apart"),
        ({"apart": -1}, "apart"),
        ({"shot": 0}, "shot"),
        ({"queries": 0}, "queries"),
        ({"drop_overlap": True, "drop_random": True}, "drop_random"),
        ({"way": -2}, "way"),
    ],
)
def test_what_the_graph_cannot_give(kind, given, named):
    with pytest.raises(OptionError, match=named):
        draw(kind, given)


def test_the_search_reaches_the_table():
    assert draw("naq-feat").info["table"]["search"] == "exact"
    assert draw("naq-feat", {"search": "approximate"}).info["table"]["search"] == "approximate"


def test_supervised_shot_is_that_of_the_tasks_unless_given():
    assert draw("supervised", shot=3).shot == 3
    assert draw("supervised", {"shot": 2}, shot=3).shot == 2
    assert draw("supervised").queries == 8


def test_augmented_views_of_the_supports():
    found = draw("g-umtra", {"views": 2, "drop_edge": 0.5})
    assert same(found, naq.umtra_episodes(GRAPH.num_nodes, way=2, views=2, count=30))
    assert found.info["drop_edge"] == 0.5 and found.info["drop_feature"] == 0.3
    with pytest.raises(OptionError, match="drop_feature"):
        draw("g-umtra", {"drop_feature": 1.0})
    with pytest.raises(OptionError, match="queries"):
        draw("g-umtra", {"queries": 3})


@pytest.mark.parametrize("kind", ["naq-feat", "naq-diff", "g-umtra"])
def test_labels_change_nothing(kind):
    assert same(draw(kind), draw(kind, graph=GRAPH.without_labels()))


def test_a_method_without_episodes_takes_no_options():
    assert episode_options(get_method("smooth"), {}) == {}
    with pytest.raises(OptionError, match="queries"):
        episode_options(get_method("smooth"), {"queries": 3})


def groups_graph(sizes, apart=True):
    """Cliques of these sizes, each with a word of its own (or all with the same)."""
    blocks = [np.ones((size, size)) - np.eye(size) for size in sizes]
    home = np.repeat(np.arange(len(sizes)), sizes)
    words = np.eye(len(sizes), dtype=np.float32)[home if apart else home * 0]
    return naq.Graph(sp.csr_array(sp.block_diag(blocks)), sp.csr_array(words), home, name="groups")


def test_every_slot_of_a_task_is_one_cluster_and_no_other_is():
    graph = groups_graph([40] * 4)
    tasks = label_free_tasks(graph, 3)
    assert (len(tasks), tasks.way, tasks.shot, tasks.queries, tasks.part) == (50, 3, 1, 8, "valid")
    # Clusters may cut a clique in two, but none spans two cliques: all nodes of a slot have one clique.
    support, query = graph.labels[tasks.support], graph.labels[tasks.query].reshape(50, 3, 8)
    assert (query == support[:, :, None]).all()


def test_the_clusters_are_those_nearest_by_cosine():
    """Against the obvious assignment: the one centre with the largest product."""
    rows = torch.nn.functional.normalize(torch.randn(60, 5, generator=torch.Generator().manual_seed(0)), dim=1)
    rows[7] = 0
    found, middle = clusters_of(rows, 6), centres(rows, 0, 6)
    assert found[7] == -1
    for node in range(60):
        if node != 7:
            best = max(range(6), key=lambda c: float(rows[node].double() @ middle[c].double()))
            assert found[node] == best


def test_labels_and_seeds_do_not_enter():
    graph = groups_graph([30] * 5)
    one = label_free_tasks(graph, 2)
    other = label_free_tasks(graph.with_labels(graph.labels[::-1].copy()), 2)
    bare = label_free_tasks(graph.without_labels(), 2)
    for tasks in (other, bare):
        assert np.array_equal(one.support, tasks.support) and np.array_equal(one.query, tasks.query)


def test_a_small_graph_has_fewer_clusters():
    """45 nodes cannot have five clusters of nine unless there are about five clusters."""
    graph = groups_graph([9] * 5)
    assert graph.num_nodes < 9 * CLUSTERS
    tasks = label_free_tasks(graph, 2)
    assert (np.bincount(tasks.support.ravel(), minlength=45) > 0).sum() > 2


def test_more_classes_than_clusters_make_more_clusters():
    graph = groups_graph([12] * 40)
    assert label_free_tasks(graph, CLUSTERS + 2).way == CLUSTERS + 2


@pytest.mark.parametrize(
    "graph", [groups_graph([4, 4]), groups_graph([40, 40], apart=False)], ids=["few nodes", "all alike"]
)
def test_too_few_clusters_are_an_error(graph):
    # Nodes of equal vectors are one cluster, however many there are.
    with pytest.raises(OptionError, match="way"):
        label_free_tasks(graph, 5)
