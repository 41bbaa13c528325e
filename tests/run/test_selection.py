"""Label-free tasks: clusters as classes, without labels, the same for every seed; criteria that lost, and what the benchmark stored."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import torch

import naq
from naq.errors import OptionError, TaskError
from naq.files import read_json
from naq.run.tasks import CLUSTERS, clusters_of, label_free_tasks

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def benchmark():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS))
        spec = importlib.util.spec_from_file_location("selection_benchmark", BENCHMARKS / "selection.py")
        module = importlib.util.module_from_spec(spec)
        patch.setitem(sys.modules, "selection_benchmark", module)
        spec.loader.exec_module(module)
        yield module


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
    from naq.neighbors.clusters import centres

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
    with pytest.raises(
        OptionError, match=r"nodes of graph 'groups' do not form 5 clusters of 9 nodes or more.*lower way"
    ):
        label_free_tasks(graph, 5)


def test_neighbour_tasks_share_no_node(graph, benchmark):
    tables = [naq.feature_neighbors(graph, 6), naq.diffusion_neighbors(graph, 6)]
    found = benchmark.neighbor_tasks(tables, way=3, queries=4, count=20, seed=1)
    assert (len(found), found.way, found.shot, found.queries) == (20, 3, 1, 4)
    for t in range(20):
        for slot in range(3):
            support = found.support[t, slot]
            assert np.array_equal(found.query[t, 4 * slot : 4 * slot + 4], tables[t % 2].ids[support, :4])
    with pytest.raises(TaskError, match="for 60 classes"):
        benchmark.neighbor_tasks(tables, way=60, queries=4, count=1)


def test_rankme_and_alpha_req_of_known_spectra(benchmark):
    random = np.random.default_rng(0)
    basis = np.linalg.qr(random.standard_normal((400, 20)) - 0.0)[0]
    flat = torch.from_numpy(basis)
    assert benchmark.rankme(flat) == pytest.approx(20, rel=1e-4)
    one = torch.from_numpy(np.outer(basis[:, 0], np.ones(20)))
    assert benchmark.rankme(one) == pytest.approx(1, abs=1e-3) and benchmark.alpha_req(one) == -1
    centred = np.linalg.qr(basis - basis.mean(axis=0))[0]
    for alpha in (0.5, 1.0, 2.0):
        decays = torch.from_numpy(centred * np.arange(1, 21) ** (-alpha / 2))
        assert benchmark.alpha_req(decays) == pytest.approx(-abs(alpha - 1), abs=1e-6)


def test_spearman_as_scipy_has_it(benchmark):
    from scipy import stats

    a, b = [1.0, 3, 2, 2, 5], [2.0, 2, 1, 4, 9]
    assert benchmark.spearman(a, b) == pytest.approx(stats.spearmanr(a, b).statistic)
    assert benchmark.spearman(a, [1.0] * 5) == 0


def test_points_lost_and_first_best(benchmark):
    """Two seeds of three candidates with known accuracies: what a criterion loses is best less chosen."""
    group = benchmark.Group("made up", "bgrl")
    tasks = np.zeros(10)
    for accuracies, says in (([0.5, 0.7, 0.6], [1.0, 0.0, 1.0]), ([0.8, 0.4, 0.6], [0.0, 0.0, 2.0])):
        benchmark.new_seed(group)
        group.names[-1] = ["a", "b", "c"]
        group.per_task[-1] = [tasks + one for one in accuracies]
        group.values[-1] = [dict.fromkeys(benchmark.CRITERIA, one) for one in says]
    found = group.to_json()
    assert found["criteria"]["clusters"] == {"spearman": -0.433, "lost": 20.0, "chosen": ["a", "c"]}
    assert found["best"] == 75.0 and found["at_random"] == 15.0
    kept = benchmark.result([group], {"bgrl": 320})
    assert all(one["points"] == 0 and not one["significant"] for one in kept["compared"])
    table = benchmark.docs_table(kept)
    assert (
        "| RankMe | -0.43 / 20.00 (20.00) | -0.43 / 20.00 (20.00) |" in table
        and "| at random | 15.00 | 15.00 |" in table
    )


def test_the_docs_show_what_was_measured(benchmark):
    kept = read_json(benchmark.RESULTS)
    assert benchmark.docs_table(kept) in benchmark.DOCS.read_text(encoding="utf-8")
    # What the product does rests on this: clusters lose fewer points than any other criterion without labels.
    lost = {
        name: np.mean([group["criteria"][name]["lost"] for group in kept["groups"]])
        for name in ("clusters", "neighbours", "rankme", "alpha-req")
    }
    assert min(lost, key=lost.get) == "clusters"
