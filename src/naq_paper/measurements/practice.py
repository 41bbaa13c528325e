"""``practice``: k labels in every class, or as many on average at random, and the class of all other nodes from one
peer.

The labels of a draw depend on its seed alone, and those of a smaller k are among those of a larger one: all methods get
the same labels. With equal labels a class with k nodes or fewer is left out at that k, for all methods. Labels at
random come as the classes do; nodes of a class that has none are all wrong. Accuracy counts nodes whose class is not
left out and whose label was not given.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp

from naq.errors import OptionError
from naq.graph import Graph
from naq.options import check_whole
from naq.random import stream
from naq_paper.cells.cell import Cell
from naq_paper.measurements import Context, check_choice, dataset_cell, validate_seed
from naq_paper.peers import PEERS, Peer

Made = TypeVar("Made")
STATUS = Path("/proc/self/status")
RESET = Path("/proc/self/clear_refs")


def with_peak(work: Callable[[], Made]) -> tuple[Made, int | None]:
    """What the work gave, and bytes; None where the system does not say.

    Memory that was freed but not yet given back to the system is given back first: reused, it would not be seen.
    """
    with suppress(AttributeError, OSError):  # not the GNU C library
        ctypes.CDLL(None).malloc_trim(0)
    try:
        RESET.write_text("5")  # resets VmHWM, see proc(5)
        before = _status("VmRSS")
    except (OSError, StopIteration):
        return work(), None
    made = work()
    return made, max(0, _status("VmHWM") - before)


def _status(name: str) -> int:
    found = next(line for line in STATUS.read_text().splitlines() if line.startswith(f"{name}:"))
    return 1024 * int(found.split()[1])


BINS = 15  # of the expected calibration error
SHARES = ("equal", "random")
"""How labels are drawn: as many of every class, or without regard to class."""


@dataclass(frozen=True, eq=False)
class Draw:
    """Labels that are given and nodes that are to be classified.

    Attributes:
        nodes: (m,) labelled nodes, ``slots``: (m,) the place of each one's class among ``classes``.
        classes: (C,) labels that are given, ``left_out``: those with too few nodes to take part.
        asked: (q,) the other nodes, ``truth``: (q,) the class of each: its place among ``classes``, or a number from C
            on.
    """

    nodes: np.ndarray
    slots: np.ndarray
    classes: np.ndarray
    left_out: np.ndarray
    asked: np.ndarray
    truth: np.ndarray

    @property
    def hash(self) -> str:
        """Of the labels and of what is asked."""
        parts = (self.nodes, self.slots, self.asked)
        return hashlib.blake2b(b"|".join(p.astype(np.int64).tobytes() for p in parts), digest_size=8).hexdigest()


def draw_labels(labels: np.ndarray, shot: int, seed: int, shares: str = "equal") -> Draw:
    """``shot`` nodes of every class that has more, or as many times the number of classes of all nodes."""
    known, sizes = np.unique(labels[labels >= 0], return_counts=True)
    left_out = known[sizes <= shot] if shares == "equal" else known[:0]
    parts = np.setdiff1d(known, left_out)
    if len(parts) < 2:
        raise OptionError(f"{len(parts)} classes have more than {shot} nodes; expected at least two to tell apart.")
    open_to = np.isin(labels, parts)
    if shares == "equal":
        drawn = [stream(seed, "practice/labels", int(c)).permutation(np.flatnonzero(labels == c))[:shot] for c in parts]
        nodes = np.concatenate(drawn)
    else:
        order = stream(seed, "practice/random").permutation(np.flatnonzero(open_to))
        most = shot * len(parts)
        other = order[labels[order] != labels[order[0]]][:1]
        # the first of another class moves to the second place: of one class there is nothing to tell apart
        nodes = np.concatenate([order[:1], other, order[1:][order[1:] != other]])[:most]
        if most >= len(order):
            raise OptionError(f"{most} labels of {len(order)} nodes leave none to classify; give fewer.")
    open_to[nodes] = False
    asked, classes = np.flatnonzero(open_to), np.unique(labels[nodes])
    place = np.full(int(known.max()) + 1, -1)
    place[np.concatenate([classes, np.setdiff1d(parts, classes)])] = np.arange(len(parts))
    return Draw(nodes, place[labels[nodes]], classes, left_out, asked, place[labels[asked]])


def practice_cell(dataset: str, peer: str, *, shots: Sequence[int], seed: int = 0, device: str = "cpu") -> Cell:
    """The cell of one method and one draw of labels: ``shots`` are labels in every class, each asked separately.

    ``device`` is part of the cell where it is not the CPU and the method can use it.
    """
    check_choice("peer", peer, PEERS)
    validate_seed(seed)
    if not shots:
        raise OptionError("shots are empty; expected numbers of labels per class, e.g. [1, 5].")
    each = sorted({check_whole("shots", shot) for shot in shots})
    there = {"device": device} if device != "cpu" and PEERS[peer].on_devices else {}
    return dataset_cell("practice", dataset, {"peer": peer, "shots": each, "seed": int(seed), **there})


def practice(config: Mapping[str, Any], context: Context) -> dict[str, Any]:
    """``by_shot``: accuracy, mean accuracy per class and calibration, at every number of labels, equal and at random;
    ``peak_bytes`` of all together.

    ``seconds`` are of processor time, all threads together, from the graph in memory to probabilities for every node,
    the mean over numbers of labels, after a warm-up on a small graph: other work on the machine does not count. Where a
    method does part of its work without labels (``prepare_seconds``), that part is counted in full.
    """
    source = context.perturbed(config).graph
    labels = source.require_labels("this comparison")
    kind, seed = PEERS.find(str(config["peer"])), int(config["seed"])
    asked = [(int(shot), shares) for shares in SHARES for shot in config["shots"]]
    draws = {at: draw_labels(labels, at[0], seed, at[1]) for at in asked}
    there = {"device": str(config["device"])} if "device" in config else {}
    warm_up(kind, **there)
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    # another graph: what one method derives from it is not there for the next
    graph = source.without_labels().with_text(None).with_table(None).with_features(source.features)

    def work() -> tuple[float, float, list[dict[str, Any]]]:
        start = time.process_time()
        peer = kind(graph, seed, **there)
        prepared = time.process_time() - start
        found, judged = [], 0.0
        for (shot, shares), draw in draws.items():
            chances = peer.classify(draw.nodes, draw.slots, len(draw.classes))
            paused = time.process_time()
            measured = measures(chances[draw.asked], draw, peer.promise(draw.asked))
            found.append({"shot": shot, "shares": shares, **measured})
            judged += time.process_time() - paused
            context.listener("classify", {"done": len(found), "total": len(draws)})
        return prepared, time.process_time() - start - prepared - judged, found

    (prepared, answered, by_shot), peak = with_peak(work)
    size = {"nodes": graph.num_nodes, "edges": graph.num_edges}
    seconds = {"prepare_seconds": prepared, "seconds": prepared + answered / len(draws)}
    return {"by_shot": by_shot, **seconds, "peak_bytes": peak, "load": load, **size}


def measures(chances: np.ndarray, draw: Draw, promise: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """What the probabilities (q, C) of the asked nodes are worth, and the peer's promise; ties go to the first
    class."""
    if chances.shape != (len(draw.asked), len(draw.classes)) or not np.isfinite(chances).all():
        expected = f"{len(draw.asked)} x {len(draw.classes)}"
        raise OptionError(f"a method gave {chances.shape} probabilities; expected finite ones, {expected}.")
    hit = chances.argmax(axis=1) == draw.truth
    sizes = np.bincount(draw.truth)
    found = {
        "accuracy": float(hit.mean()),
        "macro_accuracy": float((np.bincount(draw.truth, weights=hit) / np.maximum(sizes, 1))[sizes > 0].mean()),
        "calibration_error": calibration_error(chances.max(axis=1), hit),
        "unanswered": float((chances.max(axis=1) <= 0).mean()), "classes": len(draw.classes),
        "left_out": draw.left_out.tolist(), "asked": len(draw.asked), "draw": draw.hash,
    }  # fmt: skip
    if promise is not None:
        sets = promise["sets"]
        known = draw.truth < len(draw.classes)
        held = known & sets[np.arange(len(sets)), np.where(known, draw.truth, 0)]
        found |= {name: float(promise[name]) for name in ("expected", "low", "high")}
        found |= {"set_coverage": float(held.mean()), "set_size": float(sets.sum(axis=1).mean())}
    return found


def calibration_error(confidence: np.ndarray, hit: np.ndarray, bins: int = BINS) -> float:
    """Expected calibration error: mean distance of confidence and accuracy over equal bins, weighted by their nodes."""
    place = np.minimum((confidence * bins).astype(int), bins - 1)
    gaps = np.bincount(place, weights=confidence - hit, minlength=bins)
    return float(np.abs(gaps).sum() / len(hit))


_warm: set[tuple[type[Peer], str]] = set()


def warm_up(kind: type[Peer], **there: str) -> None:
    """The method on a ring of two colours, once in a process: libraries are loaded and code is compiled."""
    if (kind, str(there)) in _warm:
        return
    _warm.add((kind, str(there)))
    n = 24
    colour = np.arange(n) // (n // 2)
    ends = np.stack([np.arange(n), (np.arange(n) + 1) % n])
    words = sp.csr_array(np.eye(n, dtype=np.float32)[:, :4] + np.eye(2, 4, dtype=np.float32)[colour] + 1.0)
    ring = Graph(ends, words, nodes=n, name="ring")
    with suppress(OptionError):  # a method that is trained may need a larger graph
        kind(ring, 0, **there).classify(np.array([0, 1, 2, n - 3, n - 2, n - 1]), np.repeat([0, 1], 3), 2)
