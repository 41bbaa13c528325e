r"""AFGRL: an encoder that predicts what a slower copy of itself says about nodes that belong together; nothing is
augmented.

Lee, Lee and Park, Augmentation-Free Self-Supervised Learning on Graphs, https://arxiv.org/abs/2112.02472; as
pre-training for few-shot tasks (TLP): Tan et al., Transductive Linear Probing, https://arxiv.org/abs/2205.12420

.. math::
    \mathcal L = \frac1{|P|} \sum_{(i, j) \in P} \left[2 - 2\cos(q(f)_i, g_j)\right] + \left[2 - 2\cos(q(f)_j,
    g_i)\right], \qquad g \leftarrow m g + (1 - m) f

P are the positives: of the k nodes whose g is most like :math:`f_i` by cosine, i among them, those that are joined to i
or share a cluster with it in some run of k-means on the unit vectors g. f and g are [graph convolution, batch
normalisation, PReLU], g starts as a copy of f, q is a small perceptron; m rises from 0.9 to 1 by half a cosine. The
vectors are those of f.

With unit vectors, :math:`\mathcal L = 4 - \frac2{|P|} \langle \hat q, (P + P^\top) \hat g \rangle`: one sparse product
without a gradient.

Departures: training mode is set at every update, the average moves once per update and not once per tensor. Clusters
are found anew every ``refresh`` epochs and kept in the weights' file, so that a stopped run goes on with them. Batches:
rows of P are the nodes of the batch, their candidates all nodes of the sampled piece; clusters are those of the whole
graph at the start of the epoch.

Cost: an update takes half of BGRL's passes, and n^2 * latent multiplications for the similarities, in tiles (with
batches: nodes of a batch times nodes of its piece); k-means, once in ``refresh`` epochs, 20 passes of n * clusters *
latent a run. Memory about n (6 * hidden + 10 * latent + 5 * predictor) numbers.

Example:
    >>> import naq
    >>> r = naq.run("debian", method="afgrl")  # doctest: +SKIP
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import ClassVar, cast

import numpy as np
import scipy.sparse as sp
import torch
import torch.nn.functional as F

from naq.neighbors.topk import Best
from naq.nn.rows import SparseRows, multiply
from naq.options import Value, option
from naq_paper.rivals.convolutions import BLOCK, Convolutions, Predictor, follow, rising_momentum, teacher_of
from naq_paper.rivals.fixed_order import total
from naq_paper.rivals.pieces import Piece
from naq_paper.rivals.trained import TrainedEmbedder

MOMENTUM = 0.9
"""Of the average at the start."""
ROWS, COLUMNS = 1024, 4096
"""A tile of similarities on the CPU: 16 MiB."""
BLOCK_ENTRIES = 1 << 25
"""Similarities held at once on an accelerator: 128 MiB."""
ITERATIONS = 20
"""Of k-means."""


class AFGRL(TrainedEmbedder):
    """Vectors that agree with their nearest.

    Shapes:
        - ``loss``: a piece -> scalar in [0, 8]
        - ``encode_all``: (n, latent)
        - ``held_clusters``: (n, runs), in ``state_dict``, since an update reads what an earlier one found
    """

    name = "afgrl"
    summary = "an encoder predicts its slower copy on nearby nodes"
    weight_decay = 1e-5
    decoupled_decay = True
    deterministic_options: ClassVar[Mapping[str, Value]] = {"runs": 0}

    @dataclass(frozen=True)
    class Options(TrainedEmbedder.Options):
        layers: int = option(2, choices=(1, 2))  # convolutions, 2 (NaQ) or 1 (AFGRL)
        hidden: int = option(512, more_than=0)  # width of the hidden layer; one layer has none
        latent: int = option(256, more_than=0)  # width of the vectors
        predictor: int = option(512, more_than=0)  # width inside the perceptron q
        # nearest nodes that may become positives, the node itself among them (AFGRL: 4 or 8)
        k: int = option(4, at_least=1)
        clusters: int = option(100, at_least=1)  # centroids of k-means
        runs: int = option(5, at_least=0)  # of k-means; none leave only edges as a reason
        refresh: int = option(5, at_least=1)  # epochs between two searches for clusters; nearest nodes: at every update
        lr: float = option(1e-3, more_than=0)  # of AdamW
        # of running statistics, 0 for automatic: 0.99 on whole graphs, 0.1 with batches. AFGRL has 0.01.
        bn_momentum: float = option(0.0, at_least=0, below=1)
        fanout: int = option(10, at_least=1)  # see TrainedEmbedder

    options: Options

    held_clusters: torch.Tensor

    def build(self) -> None:
        norm = self.options.bn_momentum or 0.99
        sizes = [self.graph.num_features, self.options.hidden, self.options.latent]
        if self.options.layers == 1:
            del sizes[1]
        self.student = Convolutions(sizes, generator=self.generator("encoder"), device=self.device, momentum=norm)
        self.teacher = cast(Convolutions, teacher_of(self.student))
        self.predictor = Predictor(
            sizes[-1], self.options.predictor, generator=self.generator("predictor"), device=self.device, norm=norm,
            bias=0.01,
        )  # fmt: skip

    def planned(self) -> None:
        super().planned()
        n, runs = self.graph.num_nodes, self.options.runs
        if runs:
            self.register_buffer("held_clusters", torch.zeros(n, runs, dtype=torch.int64, device=self.device))

    def step_bytes(self, nodes: float, edges: float, entries: float) -> float:
        hidden, latent, predictor = self.options.hidden, self.options.latent, self.options.predictor
        clustered = 16 * self.graph.num_nodes * latent  # also with batches
        return 4 * nodes * (6 * hidden + 10 * latent + 5 * predictor) + 60 * edges + 16 * entries + clustered

    def loss(self, piece: Piece, update: int) -> torch.Tensor:
        students = self.student(piece)
        with torch.no_grad():
            teachers = F.normalize(self.teacher(piece), dim=1)
        seeds = F.normalize(students.detach()[: piece.seeds], dim=1)
        near = nearest_teachers(seeds, teachers, self.options.k)
        pairs = positives(near, piece.rows, piece.columns, self.clusters(piece, update, teachers))
        predicted = F.normalize(self.predictor(students), dim=1)
        return 4.0 - 2.0 / pairs.nnz * total((predicted * pull_targets(pairs, teachers)).sum(dim=1))

    def clusters(self, piece: Piece, update: int, teachers: torch.Tensor) -> torch.Tensor:
        """(nodes of the piece, runs) clusters, found anew where they are due."""
        runs = self.options.runs
        if runs == 0:
            return torch.empty(len(piece), 0, dtype=torch.int64, device=self.device)
        if update % (self.options.refresh * self.updates_per_epoch) == 0:
            if not piece.whole:
                teachers = F.normalize(self.teacher.encode_all(self.operator, BLOCK), dim=1)
            drawn = self.generator("centroids", update)
            self.held_clusters.copy_(clusters(teachers, self.options.clusters, runs, drawn))
        return self.held_clusters[torch.from_numpy(piece.nodes).to(self.device)]

    def after_step(self, update: int) -> None:
        follow(self.teacher, self.student, rising_momentum(MOMENTUM, update, self.updates))

    def encode_all(self) -> torch.Tensor:
        return self.student.encode_all(self.operator, BLOCK if self.batch else 0)


def pull_targets(pairs: sp.csr_array, teachers: torch.Tensor) -> torch.Tensor:
    """(P + P^T) g: what each node is pulled towards, once per pair and side."""
    both = sp.csr_array(pairs + pairs.T)
    rows = SparseRows(both.indptr.astype(np.int64), both.indices.astype(np.int32), both.data, both.shape)
    return multiply(rows, teachers)


@torch.no_grad()
def nearest_teachers(
    students: torch.Tensor, teachers: torch.Tensor, k: int, *, rows: int = ROWS, columns: int = COLUMNS
) -> torch.Tensor:
    """(m, k) ids of the teachers of the largest dot product: its own first, then best first, ties to the lowest id.

    Args:
        students: (m, d) unit vectors of the first m nodes.
        teachers: (n, d) unit vectors of all nodes.
        k: with the node itself; n at most.
        rows, columns: of a tile of similarities on the CPU.
    """
    own = torch.arange(len(students), device=students.device)[:, None]
    others = min(k, len(teachers)) - 1
    if others == 0:
        return own
    best = Best(len(students), others, students.device)
    height, width = (rows, columns) if best.on_cpu else (max(1, BLOCK_ENTRIES // len(teachers)), len(teachers))
    nodes = torch.arange(len(teachers), device=students.device)
    for some in nodes[: len(students)].split(height):
        for found in nodes.split(width):
            best.offer(students[some] @ teachers[found].T, some, found)
    best.arrays()  # sorts them
    return torch.cat([own, best.ids], dim=1)


@torch.no_grad()
def clusters(vectors: torch.Tensor, count: int, runs: int, generator: torch.Generator) -> torch.Tensor:
    """(n, runs) cluster of every vector in each of several k-means runs, which differ in the vectors they start from.

    Args:
        vectors: (n, d).
        count: clusters per run; n at most.
        generator: of the starts, on the CPU, so that devices agree.
    """
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    n = len(vectors)
    starts = [torch.randperm(n, generator=generator)[: min(count, n)].numpy() for _ in range(runs)]
    if runs == 0 or not bool(torch.isfinite(vectors).all()):  # diverged: the loss will say so
        return torch.zeros(n, runs, dtype=torch.int64, device=vectors.device)
    rows = vectors.cpu().numpy()

    def labels(start: np.ndarray) -> np.ndarray:
        model = KMeans(len(start), init=rows[start], n_init=1, max_iter=ITERATIONS, tol=0.0)
        with threadpool_limits(1, user_api="openmp"):  # of this thread
            return model.fit(rows).labels_.astype(np.int64)

    with threadpool_limits(1, user_api="blas"), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # equal vectors may leave clusters empty
        with ThreadPoolExecutor(torch.get_num_threads()) as pool:
            found = np.stack(list(pool.map(labels, starts)), axis=1)
    return torch.from_numpy(found).to(vectors.device)


def positives(neighbors: torch.Tensor, rows: torch.Tensor, columns: torch.Tensor, labels: torch.Tensor) -> sp.csr_array:
    """P as an (n, n) matrix of ones; a pair that is positive for two reasons counts once.

    Args:
        neighbors: (m, k) of the first m nodes, see :func:`nearest_teachers`.
        rows, columns: entries of A + I, by row and then by column.
        labels: (n, runs) clusters of all n nodes.
    """
    n = len(labels)
    own = torch.arange(len(neighbors), device=neighbors.device)[:, None]
    edges, wanted = rows * n + columns, own * n + neighbors
    place = torch.searchsorted(edges, wanted).clamp(max=len(edges) - 1)
    agree = edges[place] == wanted
    for run in labels.T:
        agree |= run[own] == run[neighbors]
    counts = agree.sum(dim=1).cpu().numpy()
    ids = neighbors[agree].cpu().numpy()
    indptr = np.zeros(n + 1, dtype=np.int64)
    indptr[1 : len(counts) + 1] = np.cumsum(counts)
    indptr[len(counts) + 1 :] = len(ids)
    pairs = sp.csr_array((np.ones(len(ids), dtype=np.float32), ids, indptr), shape=(n, n))
    pairs.sort_indices()
    return pairs
