"""``practice``: k labels in every class, the class of all other nodes from one peer of :mod:`naq_paper.peers`, for several k.

The labels of a draw depend on its seed alone, and those of a smaller k are among those of a larger one: all methods get the same labels. A class with
k nodes or fewer is left out at that k, for all methods. Accuracy counts nodes whose class is not left out and whose label was not given.
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
from naq_paper.measurements import Context, check_choice, check_seed, dataset_cell
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
    except (OSError, ValueError):
        return work(), None
    made = work()
    return made, max(0, _status("VmHWM") - before)


def _status(name: str) -> int:
    for line in STATUS.read_text().splitlines():
        if line.startswith(f"{name}:"):
            return 1024 * int(line.split()[1])
    raise ValueError(f"{STATUS} has no {name}.")


BINS = 15  # of the expected calibration error


@dataclass(frozen=True, eq=False)
class Draw:
    """Labels that are given and nodes that are to be classified.

    Attributes:
        nodes: (m,) labelled nodes, class by class, ``slots``: (m,) the place of each one's class among ``classes``.
        classes: (C,) labels that take part, ``left_out``: those with too few nodes.
        asked: (q,) the other nodes of these classes, ``truth``: (q,) the place of each one's class.
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


def draw_labels(labels: np.ndarray, shot: int, seed: int) -> Draw:
    """``shot`` nodes of every class that has more."""
    known, sizes = np.unique(labels[labels >= 0], return_counts=True)
    classes = known[sizes > shot]
    if len(classes) < 2:
        raise OptionError(f"{len(classes)} classes have more than {shot} nodes; expected at least two to tell apart.")
    given = [stream(seed, "practice/labels", int(c)).permutation(np.flatnonzero(labels == c))[:shot] for c in classes]
    nodes = np.concatenate(given)
    open_to = np.isin(labels, classes)
    open_to[nodes] = False
    asked = np.flatnonzero(open_to)
    slots = np.repeat(np.arange(len(classes)), shot)
    return Draw(nodes, slots, classes, known[sizes <= shot], asked, np.searchsorted(classes, labels[asked]))


def practice_cell(dataset: str, peer: str, *, shots: Sequence[int], seed: int = 0, device: str = "cpu") -> Cell:
    """The cell of one method and one draw of labels: ``shots`` are labels in every class, each a question of its own.

    ``device`` is part of the cell where it is not the CPU and the method can use it.
    """
    check_choice("peer", peer, PEERS)
    check_seed(seed)
    if not shots:
        raise OptionError("shots are empty; expected numbers of labels per class, e.g. [1, 5].")
    each = sorted({check_whole("shots", shot) for shot in shots})
    there = {"device": device} if device != "cpu" and PEERS[peer].on_devices else {}
    return dataset_cell("practice", dataset, None, {"peer": peer, "shots": each, "seed": int(seed), **there})


def practice(config: Mapping[str, Any], context: Context) -> dict[str, Any]:
    """``by_shot``: accuracy, mean accuracy per class, calibration error and seconds at every number of labels; ``peak_bytes`` of all together.

    Seconds are of processor time, all threads together, from the graph in memory to probabilities for every node, after a warm-up on a small graph: other work on the
    machine does not count. Where a method does part of its work without labels, that part is counted at every number of labels.
    """
    labels = context.perturbed(config).graph.require_labels("this comparison")
    kind, seed = PEERS.find(str(config["peer"])), int(config["seed"])
    draws = {int(shot): draw_labels(labels, int(shot), seed) for shot in config["shots"]}
    there = {"device": str(config["device"])} if "device" in config else {}
    warm_up(kind, **there)
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    source = context.perturbed(config).graph
    # a graph of its own: what one method derives from it is not there for the next
    graph = Graph(source.adjacency, source.features, names=source.names, vocab=source.vocab, name=source.name)

    def work() -> tuple[float, dict[int, tuple[np.ndarray, float]]]:
        start = time.process_time()
        peer = kind(graph, seed, **there)
        prepared = time.process_time() - start
        answers = {}
        for done, (shot, draw) in enumerate(draws.items(), 1):
            start = time.process_time()
            chances = peer.classify(draw.nodes, draw.slots, len(draw.classes))
            answers[shot] = chances[draw.asked], time.process_time() - start
            context.listener("classify", {"done": done, "total": len(draws)})
        return prepared, answers

    (prepared, answers), peak = with_peak(work)
    by_shot = [
        {"shot": shot, "seconds": prepared + seconds, **measures(chances, draws[shot])}
        for shot, (chances, seconds) in answers.items()
    ]
    size = {"nodes": graph.num_nodes, "edges": graph.num_edges}
    return {"by_shot": by_shot, "prepare_seconds": prepared, "peak_bytes": peak, "load": load, **size}


def measures(chances: np.ndarray, draw: Draw) -> dict[str, Any]:
    """What the probabilities (q, C) of the asked nodes are worth; of equal ones the first class is the answer."""
    if chances.shape != (len(draw.asked), len(draw.classes)) or not np.isfinite(chances).all():
        expected = f"{len(draw.asked)} x {len(draw.classes)}"
        raise OptionError(f"a method gave {chances.shape} probabilities; expected finite ones, {expected}.")
    hit = chances.argmax(axis=1) == draw.truth
    sizes = np.bincount(draw.truth, minlength=len(draw.classes))
    return {
        "accuracy": float(hit.mean()),
        "macro_accuracy": float((np.bincount(draw.truth, weights=hit, minlength=len(sizes)) / sizes).mean()),
        "calibration_error": calibration_error(chances.max(axis=1), hit),
        "unanswered": float((chances.max(axis=1) <= 0).mean()),
        "classes": len(draw.classes),
        "left_out": draw.left_out.tolist(),
        "asked": len(draw.asked),
        "draw": draw.hash,
    }


def calibration_error(confidence: np.ndarray, hit: np.ndarray, bins: int = BINS) -> float:
    """Expected calibration error: the mean distance of confidence and accuracy over bins of equal width, weighted by their nodes."""
    place = np.minimum((confidence * bins).astype(int), bins - 1)
    gaps = np.bincount(place, weights=confidence - hit, minlength=bins)
    return float(np.abs(gaps).sum() / len(hit))


def warm_up(kind: type[Peer], **there: str) -> None:
    """The method on a ring of two colours: libraries are loaded and code is compiled before time is taken."""
    n = 24
    colour = np.arange(n) // (n // 2)
    ends = np.stack([np.arange(n), (np.arange(n) + 1) % n])
    words = sp.csr_array(np.eye(n, dtype=np.float32)[:, :4] + np.eye(2, 4, dtype=np.float32)[colour] + 1.0)
    ring = Graph(ends, words, nodes=n, name="ring")
    kind(ring, 0, **there).classify(np.array([0, 1, 2, n - 3, n - 2, n - 1]), np.repeat([0, 1], 3), 2)
