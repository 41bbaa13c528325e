r"""Experts together, and what their answer is worth: all of it from labels that are left out.

Experts (:mod:`naq.classifier.experts`) are class means and a discriminant on views of the graph. They are joined in a
logarithmic opinion pool:

.. math::
    p(c \mid q) \propto \exp \sum_v w_v \log p_v(c \mid q), \qquad
    w = \arg\min_{w \ge 0} \; -\sum_i \log p_{-i}(y_i \mid i) \;+\; \lambda\, |w - w^0|^2

:math:`\log p_{v,-i}` is what expert v says about label i without it. The loss is convex in w. While no label can be
left out, w is the prior :math:`w^0`: class means decide or, if edges join unlike nodes, the discriminant of the
surroundings.

A label is left out of every expert and of the weights. With :math:`p_{-i}` what is then said about it, probabilities
are :math:`p^\theta`, where :math:`\theta` has the least log-loss of the labels left out. The expected accuracy a is
the mean of the highest probabilities, plus as much as labels left out are right more often than that (if they are
many), joined with the agreement of class means with the discriminant of the surroundings, two answers that err for
different reasons, which counts as ``AGREEMENT`` labels. :math:`\theta` is then set so that the mean confidence is a.
The interval is :math:`a \pm 1.8 \sqrt{b (1 - b) / (m + 4) + 0.01^2}` for m labels that could be left out, :math:`b =
(m a + 2) / (m + 4)`.

Labels drawn without regard to class also tell what they have not met: the share of labels that are the only one of
their class is that of the nodes of classes without a label (Good and Turing), and these count as wrong.

With ``unknown``, a node belongs to none of the classes if its cosine to the nearest class mean is below a threshold
that is found without labels, halfway between two that err on different sides. The higher divides the nodes' cosines
into two groups with the least spread within them (Otsu, IEEE Trans. SMC 9, 1979). The lower best parts the nodes'
highest cosines from their second highest: to a node whose class is not named, the nearest mean is as near as the
second nearest is to others. Both presume that there are such nodes. ``docs/classifier.md`` has the errors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import minimize

from naq.classifier.experts import Expert, fit_class_means, fit_discriminant, log_losses, log_softmax
from naq.classifier.labels import Labels
from naq.classifier.prediction import ExpectedAccuracy, Prediction
from naq.classifier.views import View, thin_out
from naq.device import require
from naq.graph.operators import unit_rows
from naq.threads import available_cores, one_blas_thread

if TYPE_CHECKING:
    from naq.classifier.names import ClassNames

TRUST = 2.0  # lambda: how many labels the prior weighs
BLOCK = 1 << 11  # rows of a thread at a time
AVERAGED = ("smooth", "texts")  # views of which class means are taken in addition to those of the method
NAMES = 0.8  # the weight of names alone before any label is left out, if they are trusted
MEANS = (0.7, 0.1, 0.1)  # those of class means, first on the method's vectors
OTHERS = 0.1  # the weight of each other expert before any label is left out
MOST_WEIGHED = 2000  # labels from which weights are learned at most
AGREEMENT, RESIDUAL = 2.0, 50.0  # labels that agreement and caution count as
SAMPLE = 2048  # nodes, and labels, from which means are taken
EXPONENTS = np.geomspace(0.05, 3, 60)
STEPS = 14  # halvings between the outer exponents
BINS = 256  # of the histograms that thresholds for unknown nodes are read from


@dataclass(frozen=True, eq=False)
class Pool:
    """What labels teach: experts, what each counts, and what their joint answer is worth. Fields are those of
    :class:`~naq.classifier.prediction.Prediction`.

    Attributes:
        exponent: theta, to which probabilities are raised.
    """

    labels: Labels
    experts: list[Expert]
    weights: np.ndarray
    exponent: float
    leave_one_out: np.ndarray
    trusted: float | None
    shares: np.ndarray
    unmet: float
    expected: ExpectedAccuracy | None

    @cached_property
    def columns(self) -> tuple[list[tuple[View, np.ndarray]], np.ndarray]:
        """Views that hold rows, with (d, classes) weights, and (classes,) offsets: experts added up, so that each view
        is read once."""
        of_view: dict[int, tuple[View, np.ndarray]] = {}
        offsets = np.zeros_like(self.experts[0].offsets)
        for weight, expert in zip(self.weights, self.experts):
            if weight > 0:
                offsets = offsets + weight * expert.offsets
                for view, part in expert.view.spread(weight * expert.weights):
                    before = of_view.get(id(view))
                    of_view[id(view)] = (view, part if before is None else before[1] + part)
        return [(view, part.astype(np.float32)) for view, part in of_view.values()], offsets.astype(np.float32)

    def logs(self, nodes: slice | np.ndarray) -> np.ndarray:
        """(nodes, classes) float32 log-probabilities of some nodes, not yet raised to theta."""
        views, offsets = self.columns
        return log_softmax(sum((view.rows[nodes] @ part for view, part in views), offsets))

    def probabilities(self, nodes: slice | np.ndarray) -> np.ndarray:
        """(nodes, classes) float32 of some nodes."""
        return np.exp(log_softmax(np.float32(self.exponent) * self.logs(nodes)))

    def prediction(self, probabilities: np.ndarray, outside: np.ndarray | None = None) -> Prediction:
        """With the probabilities (n, classes) of every node."""
        own = self.experts, self.weights, self.trusted, self.shares, self.unmet, self.expected
        return Prediction(self.labels, probabilities, self.leave_one_out, outside, *own)


def predict(
    views: list[View],
    labels: Labels,
    *,
    unlabelled: float,
    unknown: bool,
    unlike: bool,
    names: ClassNames | None = None,
) -> Prediction:
    """What labels say about every node.

    Args:
        unknown: whether a node may belong to no class; other arguments as of :func:`learn`.
    """
    own, count, n = labels.class_index, len(labels.classes), len(views[0].rows)
    needed = 8.0 * count * (7 * (len(views) + 2) * len(own) + n)
    require(needed, f"a prediction from {len(own):,} labels of {count:,} classes", "join classes or give fewer labels")
    found = learn(views, labels, unlabelled=0.0 if unknown else unlabelled, unlike=unlike, names=names)
    outside, probabilities = None, np.empty((n, count), dtype=np.float32)
    with one_blas_thread(), ThreadPoolExecutor(available_cores()) as threads:  # one BLAS thread for each of them
        if unknown:
            near = found.experts[0]
            toward = unit_rows(np.asarray(near.weights.T, dtype=np.float32)).T
            outside = outside_known_classes(near.view.rows @ toward, labels.nodes)

        def fill(part: slice) -> None:
            probabilities[part] = found.probabilities(part)

        in_blocks(threads, n, fill)
    return found.prediction(probabilities, outside)


def learn(
    views: list[View], labels: Labels, *, unlabelled: float, unlike: bool, names: ClassNames | None = None
) -> Pool:
    """What labels teach, from views of which the first is that of the classifier's method; rows of labelled nodes and
    of samples are all that is read.

    Args:
        unlabelled: how many labels of every class all nodes without one count for in class means.
        unlike: whether edges join unlike nodes.
        names: what names of the classes say; classes without a label need one.
    """
    nodes, own, n = labels.nodes, labels.class_index, len(views[0].rows)
    sizes = np.bincount(own, minlength=len(labels.classes))
    shares = class_shares(sizes)
    with one_blas_thread(), ThreadPoolExecutor(available_cores()) as threads:
        experts, prior, counted, trusted = fit_experts(views, labels, shares, unlabelled, names, threads)
        by_name = {expert.name: place for place, expert in enumerate(experts)}
        if unlike and not counted.any() and "surroundings" in by_name:
            prior[0], prior[by_name["surroundings"]] = OTHERS, MEANS[0]
        left, unseen = (np.stack([getattr(one, name) for one in experts]) for name in ("leave_one_out", "unseen"))
        usable = np.flatnonzero(counted)
        some = thin_out(usable, MOST_WEIGHED)
        weights = pool_weights(left[:, some], own[some], prior)
        without = pool_without_label(left, unseen, own, counted, weights)
        unmet = 0.0 if (sizes == sizes[0]).all() or names is not None else float((~counted).mean())
        found = Pool(labels, experts, weights, 1.0, without, trusted, shares, unmet, None)
        free = np.delete(np.arange(n), nodes)
        sample = thin_out(free if len(free) else np.arange(n), SAMPLE)
        agreed = _agreement(experts, sample)
        value, exponent = _expected_value(found.logs(sample), without, own, counted, shares, agreed)
    leave_one_out = np.exp(log_softmax(exponent * without)).astype(np.float32)
    leave_one_out[~counted] = np.nan
    expected = ExpectedAccuracy.around(value * (1 - unmet), len(usable) or AGREEMENT) if len(free) else None
    return replace(found, exponent=exponent, leave_one_out=leave_one_out, expected=expected)


def fit_experts(
    views: list[View], labels: Labels, shares: np.ndarray, unlabelled: float, names: ClassNames | None, pool: Executor
) -> tuple[list[Expert], np.ndarray, np.ndarray, float | None]:
    """Class means on some views, a discriminant on the others, and names of classes alone, in this order.

    Returns:
        The experts, their prior weights, which labels can be left out, and how likely names mean anything.
    """
    nodes, own, count = labels.nodes, labels.class_index, len(labels.classes)
    sizes = np.bincount(own, minlength=count)
    means = [view for place, view in enumerate(views) if not place or view.name in AVERAGED]
    others = views[:1] + [view for view in views[1:] if view.name not in AVERAGED]
    by_names: list[Expert] = []
    anchors: list[np.ndarray | None] = [None] * len(means)
    more, of_more, trusted = nodes[:0], own[:0], None  # nodes that stand in for labels
    if names is not None:
        from naq.classifier.names import trust

        more, of_more = names.stand_ins(labels.classes, nodes)
        each = [names.anchors(view, more, of_more, labels.classes) for view in means]
        read = next(i for i, view in enumerate(means) if view.name == "texts")
        everyone = np.ones(len(own), dtype=bool)
        by_names = [fit_class_means(means[read], nodes, own, shares, everyone, unlabelled, each[read], True)]
        trusted = trust(by_names[0].leave_one_out, own)
        anchors = [trusted * one for one in each]
        few = sizes[of_more] < (2 if trusted > 0.5 else 1)
        more, of_more = more[few], of_more[few]
    counted = (sizes + np.bincount(of_more, minlength=count))[own] > 1
    rows, of_rows = np.concatenate([nodes, more]), np.concatenate([own, of_more])
    jobs = [
        pool.submit(fit_class_means, view, nodes, own, shares, counted, unlabelled, one)
        for view, one in zip(means, anchors)
    ]
    jobs += [pool.submit(fit_discriminant, view, rows, of_rows, shares, counted) for view in others]
    experts = [job.result() for job in jobs] + by_names
    prior = np.full(len(experts), OTHERS if counted.any() or names is not None else 0.0)
    prior[: len(means)] = MEANS[: len(means)]
    if trusted is not None:
        prior[-1] = trusted * NAMES
    return experts, prior, counted, trusted


def pool_weights(left: np.ndarray, class_index: np.ndarray, prior: np.ndarray, trust: float = TRUST) -> np.ndarray:
    """(experts,) weights of at least 0, near the prior.

    Shapes:
        - left: (experts, labels, classes) log-probabilities of labels left out
        - class_index: (labels,) the class of each label
    """
    if not len(class_index):
        return prior.copy()
    place = np.arange(len(class_index))
    own = left[:, place, class_index].sum(axis=1)

    def loss(weights: np.ndarray) -> tuple[float, np.ndarray]:
        joint = log_softmax(np.tensordot(weights, left, 1))
        off = weights - prior
        value = -joint[place, class_index].sum() + trust * off @ off
        expected = np.einsum("vic,ic->v", left, np.exp(joint))
        return float(value), expected - own + 2 * trust * off

    found = minimize(loss, prior, jac=True, bounds=[(0.0, None)] * len(prior), options={"maxiter": 100})
    return np.asarray(found.x, dtype=np.float64)


def leave_one_out_weights(
    left: np.ndarray, class_index: np.ndarray, counted: np.ndarray, weights: np.ndarray, trust: float = TRUST
) -> np.ndarray:
    """(labels, experts) the weights that each label would find without itself, by one Newton step from ``weights``.

    Weights that are zero stay zero. ``counted`` (labels,) says which labels the weights were learned from; other
    shapes as of :func:`pool_weights`.
    """
    probabilities = np.exp(log_softmax(np.tensordot(weights, left, 1)))
    expected = np.einsum("vic,ic->iv", left, probabilities)
    slope = (expected - left[:, np.arange(len(class_index)), class_index].T) * counted[:, None]
    used = weights > 0
    centred = (left - expected.T[:, :, None])[used]
    curve = np.einsum("vic,ic,wic->vw", centred, probabilities * counted[:, None], centred, optimize=True)
    found = np.tile(weights, (len(class_index), 1))
    found[:, used] += slope[:, used] @ np.linalg.inv(curve + 2 * trust * np.eye(used.sum()))
    return np.maximum(found, 0.0)


def pool_without_label(
    left: np.ndarray, unseen: np.ndarray, own: np.ndarray, counted: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """(labels, classes) log-probabilities of the pool for each label without itself, weights included."""
    each = leave_one_out_weights(left, own, counted, weights)
    return log_softmax(np.einsum("iv,vic->ic", each, unseen))


def in_blocks(pool: Executor, count: int, work: Callable[[slice], object]) -> None:
    """Call ``work`` for every block of rows; blocks, and so bits, are the same for any number of threads."""
    for done in [pool.submit(work, slice(start, start + BLOCK)) for start in range(0, count, BLOCK)]:
        done.result()


def class_shares(sizes: np.ndarray) -> np.ndarray:
    """(classes,) of the classes among nodes: equal if all have as many labels, which is a choice and says nothing; else
    those of the labels, half a label added to each."""
    if (sizes == sizes[0]).all():
        return np.full(len(sizes), 1 / len(sizes))
    return np.asarray((sizes + 0.5) / (sizes + 0.5).sum())


def _agreement(experts: Sequence[Expert], some: np.ndarray) -> float | None:
    """The share of nodes for which the first expert names the same class as that of the surroundings (or of neighbours,
    or of features)."""
    by_name = {expert.name: expert for expert in experts}
    second = next((by_name[name] for name in ("surroundings", "neighbours", "features") if name in by_name), None)
    if second is None or not len(some):
        return None
    return float((experts[0].predicted(some) == second.predicted(some)).mean())


def _expected_value(
    found: np.ndarray, left: np.ndarray, own: np.ndarray, counted: np.ndarray, shares: np.ndarray, agreed: float | None
) -> tuple[float, float]:
    """The share of nodes that is right, and theta, from log-probabilities of some nodes and of labels left out."""
    usable = np.flatnonzero(counted)
    at = thin_out(usable, SAMPLE)
    losses = [log_losses(e * left[at], own[at]).sum() + 0.5 * np.log(e) ** 2 for e in EXPONENTS]
    exponent = float(EXPONENTS[int(np.argmin(losses))])
    probabilities = np.exp(log_softmax(exponent * found.astype(np.float64)))
    value = float(probabilities.max(axis=1).mean())
    if len(usable):  # by how much left-out labels are right more often than their confidence says
        by_class = np.ones(len(shares))
        if len(np.unique(shares)) == 1:
            by_class = probabilities.mean(axis=0) / np.maximum(np.bincount(own, minlength=len(shares)), 1)
        counts = by_class[own] * counted
        counts /= counts.sum()
        enough = 1 / float(counts @ counts)
        sure = np.exp(log_softmax(exponent * left))
        value += float(counts @ ((sure.argmax(axis=1) == own) - sure.max(axis=1))) * enough / (enough + RESIDUAL)
    if agreed is not None:
        value = (AGREEMENT * agreed + len(usable) * value) / (AGREEMENT + len(usable))
    return value, _exponent_of(found.astype(np.float64), value)


def _exponent_of(logs: np.ndarray, confidence: float) -> float:
    """theta at which the mean of the highest probabilities is ``confidence``, between 0.001 and 20."""
    low, high = np.log(0.001), np.log(20.0)
    for _ in range(STEPS):
        middle = (low + high) / 2
        below = np.exp(log_softmax(np.exp(middle) * logs)).max(axis=1).mean() < confidence
        low, high = (middle, high) if below else (low, middle)
    return float(np.exp((low + high) / 2))


def outside_known_classes(cosines: np.ndarray, labelled: np.ndarray) -> np.ndarray:
    """(n,) bool from cosines (n, classes); never a labelled node."""
    second, nearest = np.partition(cosines, -2, axis=1)[:, -2:].T
    outside = nearest < (otsu_threshold(nearest) + parting_threshold(second, nearest)) / 2
    outside[labelled] = False
    return np.asarray(outside)


def otsu_threshold(values: np.ndarray) -> float:
    """The edge of a histogram's bins below and above which values spread least."""
    counts, edges = np.histogram(values, BINS)
    middle = (edges[1:] + edges[:-1]) / 2
    below, total = np.cumsum(counts).astype(np.float64), np.cumsum(counts * middle)
    above = below[-1] - below
    between = (total[-1] * below / below[-1] - total) ** 2 / np.maximum(below * above, 1.0)
    return float(edges[1:][between.argmax()])


def parting_threshold(low: np.ndarray, high: np.ndarray) -> float:
    """The edge of a histogram's bins with the fewest of ``low`` from it on and of ``high`` below it, together."""
    edges = np.histogram_bin_edges(np.concatenate([low, high]), BINS)
    under_low, under_high = (np.cumsum(np.histogram(values, edges)[0]) for values in (low, high))
    return float(edges[1:][(under_low - under_high).argmax()])


def edges_do_not_help(found: Prediction) -> bool:
    """Whether experts that read no edges say as much about the labels left out, within one standard error; False if
    there are no such experts."""
    bare = [expert for expert in found.experts if not expert.view.edges]
    usable = np.flatnonzero(found.has_other_labels)
    if not bare or len(bare) == len(found.experts) or len(usable) < 2:
        return False
    own, everyone = found.labels.class_index[usable], np.ones(len(usable), dtype=bool)
    left, unseen = (np.stack([getattr(one, name)[usable] for one in bare]) for name in ("leave_one_out", "unseen"))
    weights = pool_weights(left, own, np.full(len(bare), 1 / len(bare)))
    without_edges = pool_without_label(left, unseen, own, everyone, weights)[np.arange(len(usable)), own]
    gain = np.log(np.maximum(found.leave_one_out[usable, own].astype(np.float64), 1e-300)) - without_edges
    return bool(gain.mean() <= gain.std() / np.sqrt(len(gain)))
