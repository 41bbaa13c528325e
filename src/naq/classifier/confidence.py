r"""What labels say about every node, and what that is worth: all of it from labels that are left out.

Experts are class means (:mod:`naq.classifier.prototypes`) and a discriminant (:mod:`naq.classifier.discriminant`) on
views of the graph (:mod:`naq.classifier.views`); labels that are left out decide what each is worth
(:mod:`naq.classifier.pool`). While no label can be left out, class means decide or, where edges join unlike nodes, the
discriminant of a node's surroundings.

A label is left out of every expert and of the weights. With :math:`p_{-i}` what is then said about it, probabilities
are :math:`p^\theta`, where :math:`\theta` has the least log-loss of the labels left out. The expected accuracy a is the
mean of the highest probabilities, and as much more as labels left out are right more often than that (where they are
many), joined with the agreement of class means with the discriminant of the surroundings, two answers that err for
different reasons, which counts as ``AGREEMENT`` labels: the only thing that tells where no label can be left out.
:math:`\theta` is then set so that the mean confidence is a. The interval is
:math:`a \pm 1.8 \sqrt{b (1 - b) / (m + 4) + 0.01^2}` for m labels that could be left out,
:math:`b = (m a + 2) / (m + 4)`.

Labels that came without regard to class also tell what they have not met: as many nodes are of classes without a label,
or as good as that, as labels are the only one of their class (Good and Turing), and these count as wrong.

A prediction set holds the classes above one threshold, at which probabilities and left-out labels (``MASS`` labels'
worth of the former) say that it holds the true class as often as asked.

With ``unknown``, a node is said to belong to none of the classes if its cosine to the nearest class mean is below a
threshold, which is found without labels: halfway between two that err on different sides. The higher divides the nodes'
cosines into two groups with the least spread within them (Otsu, IEEE Trans. SMC 9, 1979). The lower best parts the
nodes' highest cosines from their second highest: to a node whose class is not named, the nearest mean is as near as the
second nearest is to others. Both take for granted that there are such nodes. ``docs/classifier.md`` has the errors.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from naq.classifier.discriminant import discriminant
from naq.classifier.labels import Labels
from naq.classifier.names import ClassNames, trust
from naq.classifier.pool import Expert, in_blocks, left_out_weights, log_loss, log_softmax, pool_weights, pooled
from naq.classifier.prototypes import class_means
from naq.classifier.views import View
from naq.device import require
from naq.errors import OptionError
from naq.threads import available_cores, one_blas_thread
from naq.unit_rows import unit_rows

AVERAGED = ("smooth", "texts")  # views of which class means are taken beside those of the method
NAMES = 0.8  # the weight of names alone before any label is left out, where they are trusted
MEANS = (0.7, 0.1, 0.1)  # those of class means, first on the method's vectors
OTHERS = 0.1  # the weight of each other expert before any label is left out
MOST_WEIGHED = 2000  # labels from which weights are learned at most
AGREEMENT, MASS, RESIDUAL = 2.0, 20.0, 50.0  # labels that agreement, probabilities and caution count as
NARROW = 1.8
"""Half an interval in standard deviations: nine of ten were to lie inside on eight graphs; the normal distribution has 1.64."""
UNTOLD = 0.01
"""The standard deviation that no number of labels takes away: without it, 81 % of the intervals of 200 labels in every class held on
seven graphs, with it 93 %."""
SAMPLE = 2048  # nodes, and labels, from which means are taken
EXPONENTS = np.geomspace(0.05, 3, 60)
STEPS = 14  # halvings between the outer exponents
BINS = 256  # of the histograms that thresholds for unknown nodes are read from


@dataclass(frozen=True)
class ExpectedAccuracy:
    """The share of the nodes without a label that is expected to be right, and where it lies in nine of ten cases."""

    value: float
    low: float
    high: float

    @classmethod
    def around(cls, value: float, labels: float) -> ExpectedAccuracy:
        """The interval of a share that so many left-out labels tell, with two right and two wrong ones more (Agresti and Coull)."""
        value = min(max(value, 0.0), 1.0)
        share = (labels * value + 2) / (labels + 4)
        spread = NARROW * float(np.sqrt(share * (1 - share) / (labels + 4) + UNTOLD**2))
        return cls(value, max(0.0, value - spread), min(1.0, value + spread))

    def __str__(self) -> str:
        return f"{100 * self.value:.0f} % ({100 * self.low:.0f} to {100 * self.high:.0f} % in nine of ten cases)"


@dataclass(frozen=True)
class DoubtfulLabel:
    """A label that all else contradicts: the node, its class, the class that is meant instead, and how likely each is."""

    node: int
    given: Any
    instead: Any
    given_probability: float
    instead_probability: float


@dataclass(frozen=True, eq=False)
class Prediction:
    """What some labels say about every node.

    Attributes:
        labels: with L labels in C classes.
        probabilities: (n, C) float32, of every class, were one of them the right one.
        left_out: (L, C) float32, those of the labelled nodes, each without its own label; NaN for the only one of a
            class.
        nowhere: (n,) bool, which nodes belong to no class; None unless that was asked.
        experts: those that were asked, ``weights``: (experts,) how much each counts.
        trusted: how likely names of the classes mean anything (:func:`naq.classifier.names.trust`); None without names.
    """

    labels: Labels
    probabilities: np.ndarray
    left_out: np.ndarray
    nowhere: np.ndarray | None
    experts: list[Expert]
    weights: np.ndarray
    trusted: float | None
    _expected: ExpectedAccuracy | None
    _shares: np.ndarray
    _unseen: float
    _sets: dict[float, np.ndarray] = field(default_factory=dict)

    @property
    def predicted(self) -> np.ndarray:
        """(n,) the likeliest class of every node; of objects, with None for nodes that belong to no class."""
        names = self.labels.classes[self.probabilities.argmax(axis=1)]
        if self.nowhere is not None:
            names = names.astype(object)
            names[self.nowhere] = None
        return names

    @cached_property
    def transduction(self) -> np.ndarray:
        """(n,) ``predicted``, but for the labelled nodes, which have the class that was given."""
        chosen = self.predicted
        chosen[self.labels.nodes] = self.labels.values
        return chosen

    @cached_property
    def told(self) -> np.ndarray:
        """(L,) whether a label could be left out: it is not the only one of its class."""
        return ~np.isnan(self.left_out[:, 0])

    @cached_property
    def free(self) -> np.ndarray:
        """Nodes without a label."""
        return np.delete(np.arange(len(self.probabilities)), self.labels.nodes)

    @property
    def expected(self) -> ExpectedAccuracy:
        """What share of the nodes without a label is right, as far as can be known without their classes."""
        if self._expected is None:
            raise OptionError("every node has a label, so there is no accuracy to expect; leave some without.")
        return self._expected

    def expected_by_class(self) -> list[ExpectedAccuracy | None]:
        """For each class the share of the nodes named so that is right; None where no node without a label is."""
        some = self.probabilities[self.free]
        named, sure = some.argmax(axis=1), some.max(axis=1)
        sizes = np.bincount(self.labels.class_index, minlength=len(self.labels.classes))
        those = (sure[named == place] for place in range(len(sizes)))
        values = [float(one.mean(dtype=np.float64)) * (1 - self._unseen) if len(one) else None for one in those]
        return [None if v is None else ExpectedAccuracy.around(v, float(size)) for v, size in zip(values, sizes)]

    def view_weights(self) -> dict[str, float]:
        """The share of each view in the answer, the largest first; those that count less than 1 % are left out."""
        total: dict[str, float] = {}
        for expert, weight in zip(self.experts, self.weights):
            total[expert.seen] = total.get(expert.seen, 0.0) + float(weight)
        all_of_it = sum(total.values()) or 1.0
        found = {name: weight / all_of_it for name, weight in total.items() if weight > 0.01 * all_of_it}
        return dict(sorted(found.items(), key=lambda item: -item[1]))

    def sets(self, level: float) -> np.ndarray:
        """(n, C) bool: classes that together hold the true one for about ``level`` of the nodes."""
        if not 0 < level < 1:
            raise OptionError(f"level is {level!r}; expected a probability above 0 and below 1, e.g. 0.9.")
        if level not in self._sets:
            found = self.probabilities >= self._threshold(level)
            found[np.arange(len(found)), self.probabilities.argmax(axis=1)] = True
            self._sets[level] = found
        return self._sets[level]

    def _threshold(self, level: float) -> float:
        """The highest probability from which on classes are held often enough."""
        some = self.probabilities[_thinned(self.free)] if len(self.free) else self.probabilities
        ordered = np.sort(some, axis=None)[::-1].astype(np.float64)
        mass = np.cumsum(ordered) / len(some)
        left, own = self.left_out[self.told], self.labels.class_index[self.told]
        held_from = np.where(left.argmax(axis=1) == own, 1.0, left[np.arange(len(own)), own])
        held = len(own) - np.searchsorted(np.sort(held_from), ordered)
        enough = (MASS * mass + held) / (MASS + len(own)) >= level
        return float(ordered[int(enough.argmax())]) if enough.any() else 0.0

    def no_better_than_guessing(self) -> bool:
        """Whether naming the largest class everywhere may be right as often."""
        return self._expected is not None and self._expected.low <= float(self._shares.max())

    def edges_do_not_help(self) -> bool:
        """Whether experts that read no edges say as much about the labels left out, within one standard error; False
        where there are no such experts."""
        alone = [place for place, expert in enumerate(self.experts) if not expert.view.edges]
        if not alone or len(alone) == len(self.experts) or self.told.sum() < 2:
            return False
        at, own = np.flatnonzero(self.told), self.labels.class_index[self.told]
        left, unseen = (
            np.stack([getattr(self.experts[p], name)[at] for p in alone]) for name in ("left_out", "unseen")
        )
        weights = pool_weights(left, own, np.full(len(alone), 1 / len(alone)))
        bare = _joined_left_out(left, unseen, own, np.ones(len(at), dtype=bool), weights)
        place = np.arange(len(at))
        gain = np.log(np.maximum(self.left_out[at, own].astype(np.float64), 1e-300)) - bare[place, own]
        return bool(gain.mean() <= gain.std() / np.sqrt(len(gain)))

    def doubtful_labels(self) -> list[DoubtfulLabel]:
        """Labels to which another class is likelier once they are left out, the most doubtful first."""
        own = self.labels.class_index
        given = self.left_out[np.arange(len(own)), own]
        best = np.where(self.told, np.nan_to_num(self.left_out).argmax(axis=1), own)
        most = self.left_out[np.arange(len(own)), best]
        classes, nodes = self.labels.classes.tolist(), self.labels.nodes.tolist()
        doubted = np.flatnonzero(best != own)
        order = doubted[np.argsort(np.log(np.maximum(given[doubted], 1e-30)) - np.log(most[doubted]), kind="stable")]
        return [
            DoubtfulLabel(nodes[i], classes[own[i]], classes[best[i]], float(given[i]), float(most[i])) for i in order
        ]

    def disagreement(self) -> np.ndarray:
        """(n,) how far the experts that count are from agreeing, each with its weight: 0 if all name the same class."""
        count = np.zeros((len(self.probabilities), len(self.labels.classes)), dtype=np.float32)
        everyone = np.arange(len(count))
        for expert, weight in zip(self.experts, self.weights / max(self.weights.sum(), 1e-12)):
            if weight > 0.01:
                count[everyone, expert.predicted(everyone)] += weight
        return np.asarray(1 - count.max(axis=1))

    def deciding_views(self, chosen: np.ndarray, second: np.ndarray) -> list[str]:
        """(n,) the view that speaks most for the class ``chosen`` (n,) against ``second`` (n,), by name."""
        names = list(self.view_weights()) or [self.experts[0].seen]
        everyone = np.arange(len(chosen))
        total = np.zeros((len(names), len(chosen)), dtype=np.float32)
        for expert, weight in zip(self.experts, self.weights):
            if weight > 0 and expert.seen in names:
                scores = expert.scores(everyone)
                total[names.index(expert.seen)] += weight * (scores[everyone, chosen] - scores[everyone, second])
        return [names[place] for place in total.argmax(axis=0).tolist()]

    def verdicts(self) -> list[str]:
        """What a person should know beside the accuracy to expect, in words."""
        found, some = [], len(self.labels.nodes) > 0
        if self.no_better_than_guessing():
            known = "the labels tell" if some else "two views agree"
            found.append(f"as far as {known}, this may be no better than naming the largest class everywhere")
        if self.edges_do_not_help():
            found.append("a model on the features alone would do as well: the edges do not help")
        if self.trusted is not None and not some:
            found.append("no label tells yet whether the names mean what the texts say: label a few nodes to know")
        elif self.trusted is not None and self.trusted < 0.5:
            found.append("the names of the classes say nothing about the nodes, as far as the labels tell")
        equal = len(np.unique(self._shares)) == 1
        found.append(
            f"all classes are taken to be equally large, since {'they have equally many labels' if some else 'there is no label'}"
            if equal
            else "classes are taken to be as large as their numbers of labels"
        )
        if self._unseen > 0:
            found.append(f"about {100 * self._unseen:.0f} % of the nodes may be of classes without a label")
        return found


def predict(
    views: list[View],
    labels: Labels,
    *,
    unlabelled: float,
    unknown: bool,
    unlike: bool,
    names: ClassNames | None = None,
) -> Prediction:
    """What labels say, from views of which the first is that of the classifier's method.

    Args:
        names: what names of the classes say; classes without a label need one.
        unlabelled: how many labels of every class all nodes without one count for in class means.
        unknown: whether a node may belong to no class.
        unlike: whether edges join unlike nodes.
    """
    nodes, own, count = labels.nodes, labels.class_index, len(labels.classes)
    needed = 8.0 * count * (7 * (len(views) + 2) * len(own) + len(views[0].rows))
    require(needed, f"a prediction from {len(own):,} labels of {count:,} classes", "join classes or give fewer labels")
    sizes = np.bincount(own, minlength=count)
    shares, trusted = class_shares(sizes), 0.0
    unlabelled = 0.0 if unknown else unlabelled
    means = [view for place, view in enumerate(views) if not place or view.name in AVERAGED]
    others = views[:1] + [view for view in views[1:] if view.name not in AVERAGED]
    with one_blas_thread(), ThreadPoolExecutor(available_cores()) as pool:  # one BLAS thread for each of the pool
        everyone = np.ones(len(own), dtype=bool)
        namers: list[Expert] = []
        beside: list[np.ndarray | None] = [None] * len(means)
        more, of_more = nodes[:0], own[:0]
        if names is not None:
            more, of_more = names.stand_ins(labels.classes, nodes)
            there = [names.anchors(view, more, of_more, labels.classes) for view in means]
            read = next(i for i, view in enumerate(means) if view.name == "texts")
            namers = [class_means(means[read], nodes, own, shares, everyone, unlabelled, there[read], alone=True)]
            trusted = trust(namers[0].left_out, own)
            beside = [trusted * one for one in there]
            few = sizes[of_more] < (2 if trusted > 0.5 else 1)
            more, of_more = more[few], of_more[few]
        counted = (sizes + np.bincount(of_more, minlength=count))[own] > 1
        taught, of_taught = np.concatenate([nodes, more]), np.concatenate([own, of_more])
        jobs = [pool.submit(class_means, v, nodes, own, shares, counted, unlabelled, b) for v, b in zip(means, beside)]
        jobs += [pool.submit(discriminant, view, taught, of_taught, shares, counted) for view in others]
        experts = [job.result() for job in jobs] + namers
        prior = np.full(len(experts), OTHERS if counted.any() or names is not None else 0.0)
        prior[: len(means)] = MEANS[: len(means)]
        prior[len(experts) - len(namers) :] = trusted * NAMES
        if unlike and not counted.any() and (place := _place(experts, "surroundings")):
            prior[0], prior[place] = OTHERS, MEANS[0]
        left = np.stack([expert.left_out for expert in experts])
        told = np.flatnonzero(counted)
        some = told[:: -(-len(told) // MOST_WEIGHED) or 1]
        weights = pool_weights(left[:, some], own[some], prior)
        logs = pooled(experts, weights, pool)
        alone = _joined_left_out(left, np.stack([expert.unseen for expert in experts]), own, counted, weights)
        free = np.delete(np.arange(len(logs)), nodes)
        sample = _thinned(free if len(free) else np.arange(len(logs)))
        unseen = 0.0 if (sizes == sizes[0]).all() or names is not None else float((~counted).mean())
        agreed = _agreement(experts, sample)
        value, exponent = _expected_value(logs[sample], alone, own, counted, shares, agreed)
        left_out = np.exp(log_softmax(exponent * alone)).astype(np.float32)
        left_out[~counted] = np.nan
        nowhere = None
        if unknown:
            near = experts[0]
            toward = unit_rows(np.asarray(near.weights.T, dtype=np.float32)).T
            nowhere = belongs_nowhere(near.view.rows @ toward, nodes)
        in_blocks(pool, len(logs), lambda part: sharpen(logs[part], np.float32(exponent)))
    expected = ExpectedAccuracy.around(value * (1 - unseen), len(told) or AGREEMENT) if len(free) else None
    return Prediction(
        labels,
        logs,
        left_out,
        nowhere,
        experts,
        weights,
        trusted if names is not None else None,
        expected,
        shares,
        unseen,
    )


def sharpen(logs: np.ndarray, exponent: np.float32) -> None:
    """Log-probabilities times the exponent become probabilities, in place."""
    np.exp(log_softmax(exponent * logs), out=logs)


def class_shares(sizes: np.ndarray) -> np.ndarray:
    """(classes,) of the classes among nodes: equal where all have as many labels, which is a choice and says nothing;
    else those of the labels, half a label added to each."""
    if (sizes == sizes[0]).all():
        return np.full(len(sizes), 1 / len(sizes))
    return np.asarray((sizes + 0.5) / (sizes + 0.5).sum())


def _place(experts: Sequence[Expert], name: str) -> int:
    """Where the discriminant of a view is; 0 if there is none."""
    return next((i for i, expert in enumerate(experts) if expert.name == name), 0)


def _thinned(items: np.ndarray) -> np.ndarray:
    """At most ``SAMPLE`` of them, at equal distances."""
    return items[:: -(-len(items) // SAMPLE) or 1]


def _joined_left_out(
    left: np.ndarray, unseen: np.ndarray, own: np.ndarray, counted: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """(labels, classes) log-probabilities of the pool for each label without itself, weights included."""
    each = left_out_weights(left, own, counted, weights)
    return log_softmax(np.einsum("iv,vic->ic", each, unseen))


def _agreement(experts: Sequence[Expert], some: np.ndarray) -> float | None:
    """The share of nodes for which the first expert and the one of the surroundings (or of neighbours, or of features)
    name the same class."""
    first = experts[0]
    second = next(
        (experts[p] for p in (_place(experts, n) for n in ("surroundings", "neighbours", "features")) if p), None
    )
    if second is None or not len(some):
        return None
    return float((first.predicted(some) == second.predicted(some)).mean())


def _expected_value(
    found: np.ndarray, left: np.ndarray, own: np.ndarray, counted: np.ndarray, shares: np.ndarray, agreed: float | None
) -> tuple[float, float]:
    """The share of nodes that is right, and theta, from log-probabilities of some nodes and of labels left out."""
    told = np.flatnonzero(counted)
    at = told[:: -(-len(told) // SAMPLE) or 1]
    losses = [log_loss(e * left[at], own[at]) + 0.5 * np.log(e) ** 2 for e in EXPONENTS]
    exponent = float(EXPONENTS[int(np.argmin(losses))])
    mass = np.exp(log_softmax(exponent * found.astype(np.float64)))
    value = float(mass.max(axis=1).mean())
    if len(told):  # by how much left-out labels are right more often than their confidence says
        by_class = np.ones(len(shares))
        if len(np.unique(shares)) == 1:
            by_class = mass.mean(axis=0) / np.maximum(np.bincount(own, minlength=len(shares)), 1)
        counts = by_class[own] * counted
        counts /= counts.sum()
        enough = 1 / float(counts @ counts)
        sure = np.exp(log_softmax(exponent * left))
        value += float(counts @ ((sure.argmax(axis=1) == own) - sure.max(axis=1))) * enough / (enough + RESIDUAL)
    if agreed is not None:
        value = (AGREEMENT * agreed + len(told) * value) / (AGREEMENT + len(told))
    return value, _exponent_of(found.astype(np.float64), value)


def _exponent_of(logs: np.ndarray, confidence: float) -> float:
    """theta at which the mean of the highest probabilities is ``confidence``, between 0.001 and 20."""
    low, high = np.log(0.001), np.log(20.0)
    for _ in range(STEPS):
        middle = (low + high) / 2
        below = np.exp(log_softmax(np.exp(middle) * logs)).max(axis=1).mean() < confidence
        low, high = (middle, high) if below else (low, middle)
    return float(np.exp((low + high) / 2))


def belongs_nowhere(cosines: np.ndarray, labelled: np.ndarray) -> np.ndarray:
    """(n,) bool from cosines (n, classes); never a labelled node."""
    second, nearest = np.partition(cosines, -2, axis=1)[:, -2:].T
    apart = nearest < (otsu_threshold(nearest) + parting_threshold(second, nearest)) / 2
    apart[labelled] = False
    return np.asarray(apart)


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
