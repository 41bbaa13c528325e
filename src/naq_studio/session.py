"""One open graph: the journal, what the classifier says now, and who wants to hear of changes."""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from naq.classifier.map import COLOURS, SHAPES
from naq.errors import NaqError, plain, with_flags
from naq.graph import Graph
from naq_studio import answers
from naq_studio.answers import OUTSIDE, SpotCheck, VersionedPrediction
from naq_studio.board import NONE, Entry, GivenLabels, one_line
from naq_studio.columns import Columns
from naq_studio.images import Images
from naq_studio.journal import Journal
from naq_studio.model import PHASES, Model

if TYPE_CHECKING:
    from naq.classifier import ExpectedAccuracy

UNLABELLED = -3
"""Instead of a class in the arrays that the page gets: no label, or no prediction."""
MOST_LISTENERS, MOST_DOUBTED = 32, 20
Found = TypeVar("Found")


class Session:
    """Everything the page shows; safe to use from several threads.

    ``ending`` says whether the server is about to end. ``read_with`` are other arguments of :func:`naq.load`, for the
    code that repeats it. ``version`` counts changes of the labels, ``answer.version`` says
    which of them the predictions are of.
    """

    def __init__(
        self, graph: Graph, path: Path, *, read_with: Mapping[str, Any] | None = None, images: Images | None = None
    ) -> None:
        self.graph, self.read_with, self.images = graph, read_with or {}, images
        self.columns, self.journal = Columns(graph), Journal(path, graph)
        self.model = Model(graph, self.publish)
        self.lock = threading.RLock()
        self.version, self.start_id = 1, secrets.token_hex(8)
        self.answer: VersionedPrediction | None = None
        self.spot: SpotCheck | None = None
        self.refused = 0  # the version of the labels whose predictions failed a spot check
        self.ending: Callable[[], bool] = lambda: False
        self.queue: list[int] = []
        self.curve: list[tuple[int, int, float, float, float]] = []
        self._listeners: dict[asyncio.Queue[int], asyncio.AbstractEventLoop] = {}
        self._wake, self._stop = threading.Condition(self.lock), False
        self._failures = ["", ""]  # of the last prediction and of the last suggestions
        self._seen, self._answered, self._queued_for = 0, 0, 0
        self.threads = [
            threading.Thread(target=work, name=f"studio-{work.__name__}", daemon=True)
            for work in (self.model.run, self._answer_loop, self._suggest_loop)
        ]

    def start(self) -> None:
        for thread in self.threads:
            thread.start()

    def stop(self) -> None:
        with self.lock:
            self._stop = True
            self._wake.notify_all()
        self.model.stop()
        for thread in self.threads:
            if thread.is_alive():
                thread.join(timeout=10)
        self.journal.close()

    def write(self, rows: list[Entry]) -> dict[str, Any]:
        """One step, on the disk when this returns: the version of the labels then, and how many entries it has."""
        if not rows:
            return {"version": self.version, "changed": 0}
        with self.lock:
            self.journal.write(rows)
            self.version += 1
            board = self.journal.board
            known = len(board.done) - (rows[0].action not in ("undo", "redo"))  # steps whose points still hold
            self.curve = [point for point in self.curve if point[0] <= known]
            gone = {*board.labels, *board.skipped}
            self.queue = [node for node in self.queue if node not in gone]
            if rows[0].action == "undo":  # what lost its label is suggested again
                back = [
                    node for (kind, node), _, _ in board.undone[-1] if kind in ("node", "skip") and node not in gone
                ]
                self.queue = [*back[:1], *(node for node in self.queue if node not in back[:1])]
            done = {"version": self.version, "changed": len(rows)}
        self.publish()
        return done

    def listen(self, loop: asyncio.AbstractEventLoop) -> asyncio.Queue[int] | None:
        """A queue that gets a number after each change; None where too many listen."""
        with self.lock:
            if len(self._listeners) >= MOST_LISTENERS:
                return None
            queue: asyncio.Queue[int] = asyncio.Queue(maxsize=4)
            self._listeners[queue] = loop
            return queue

    def leave(self, queue: asyncio.Queue[int]) -> None:
        with self.lock:
            self._listeners.pop(queue, None)

    def publish(self) -> None:
        """Tell all tabs that something changed, which fetch what, and the threads in the background."""
        with self.lock:
            self._wake.notify_all()
            listeners = list(self._listeners.items())
        for queue, loop in listeners:
            try:
                loop.call_soon_threadsafe(_put, queue, self.version)
            except RuntimeError:  # its loop has ended
                self.leave(queue)

    def _until(self, ready: Callable[[], bool]) -> bool:
        """Wait; False when the session stops."""
        with self._wake:
            while not self._stop and not ready():
                self._wake.wait()
            return not self._stop

    def _answer_loop(self) -> None:
        while self._until(lambda: self.model.classifier is not None and self.version != self._seen):
            with self.lock:
                board = self.journal.board
                given, steps = board.given_labels(), len(board.done)
                seen = self._seen = self.version
            classifier = self.model.classifier
            assert classifier is not None
            found, failure = _tried(answers.answer, classifier, given, seen)
            with self.lock:
                self.answer, self._answered, self._failures[0] = found, seen, failure
                if found is not None and found.expected is not None and seen == self.version:
                    at = found.expected
                    self.curve = [one for one in self.curve if one[0] < steps]
                    self.curve.append((steps, len(given.labels), at.value, at.low, at.high))
            self.publish()

    def _suggest_loop(self) -> None:
        """Fills the queue when it runs short, or when the labels have moved on."""
        if sys.platform == "linux":  # there threads have their own priorities: predictions and the page come first
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)
        while self._until(self._wants_suggestions):
            classifier = self.model.classifier
            assert classifier is not None
            with self.lock:
                board = self.journal.board
                given, gone, version = board.given_labels(), {*board.labels, *board.skipped}, self.version
                self._queued_for = version
            found, failure = _tried(answers.suggest, classifier, given, gone)
            with self.lock:
                self._failures[1] = failure
                gone = {*self.journal.board.labels, *self.journal.board.skipped}
                head = [node for node in self.queue[:1] if node not in gone]  # what is being looked at stays
                self.queue = head + [node for node in found or [] if node not in gone and node not in head]
            self.publish()

    def _wants_suggestions(self) -> bool:
        if self.model.classifier is None or self._queued_for == self.version:
            return False
        if self.answer is not None and self.answer.version != self.version:
            return False  # predictions first
        return self._queued_for == 0 or len(self.queue) < answers.QUEUE - 3

    def given_labels(self) -> GivenLabels:
        with self.lock:
            return self.journal.board.given_labels()

    def state(self) -> dict[str, Any]:
        """Everything but names, places and one value per node."""
        with self.lock:
            board, graph, model = self.journal.board, self.graph, self.model
            given = np.fromiter(board.labels.values(), dtype=np.int64, count=len(board.labels))
            found, brings = self.answer, None if graph.text is None else graph.text.class_names
            predicted = np.empty(0, np.int64) if found is None else np.delete(found.chosen, list(board.labels))
            by_class = {} if found is None else dict(zip(found.ids.tolist(), map(_interval, found.expected_by_class)))
            return {
                "graph": {
                    "name": graph.name,
                    "nodes": graph.num_nodes,
                    "named": bool(self.names()),
                    "words": graph.vocab is not None,
                    "text": graph.text is not None,
                    "texts": graph.table is not None and graph.table.has("text"),
                    "brings": [] if brings is None else brings.tolist(),
                },
                "start": self.start_id,  # versions count from it
                "version": self.version,
                "answer": None if found is None else found.version,
                "pending": model.classifier is not None and self._answered != self.version,
                "classes": [
                    {
                        "id": number,
                        "name": name,
                        "colour": colour,
                        "about": board.about.get(number),
                        "labels": int((given == number).sum()),
                        "nodes": int((given == number).sum() + (predicted == number).sum()),
                        "expected": by_class.get(number),
                    }
                    for number, (name, colour) in sorted(board.classes.items())
                ],
                "labels": int((given != NONE).sum()),
                "none": int((given == NONE).sum()),
                "outside": int((predicted == OUTSIDE).sum()),
                "skipped": len(board.skipped),
                "unknown": board.unknown,
                "undo": len(board.done),
                "redo": len(board.undone),
                "queue": self.queue,
                "expected": None if found is None else _interval(found.expected),
                "weights": [] if found is None else list(found.weights.items()),
                "doubtful": [] if found is None else self._doubtful(found),
                "choice": "" if found is None else found.choice,
                "notes": [] if found is None else found.notes,
                "curve": [point[1:] for point in self.curve],
                "phase": model.phase,
                "phase_text": PHASES[model.phase],
                "phase_seconds": round(time.monotonic() - model.since, 1),
                "failure": model.failure or next(filter(None, self._failures), ""),
                "learned": model.classifier is not None,
                "layouts": [name for name in ("pca", "pacmap") if name in model.layouts],
                "file": str(self.journal.path),
                "problems": self.journal.problems,
                "colours": COLOURS,
                "shapes": SHAPES,
            }

    def _doubtful(self, found: VersionedPrediction) -> list[dict[str, Any]]:
        """Labels to look at again, without those that were kept or changed since."""
        board = self.journal.board
        numbers = board.given_labels().numbers
        shown = []
        for one in found.doubtful:
            given, instead = numbers.get(one.given), numbers.get(one.instead)
            if one.node in board.kept or given is None or instead is None or board.labels.get(one.node) != given:
                continue
            sure = round(one.given_probability, 4), round(one.instead_probability, 4)
            shown.append({"node": one.node, "given": given, "instead": instead, "probabilities": sure})
        return shown[:MOST_DOUBTED]

    def arrays(self) -> tuple[int, bytes]:
        """The version, and for every node: int16 given class, int16 predicted class, uint8 probability of 255."""
        n = self.graph.num_nodes
        with self.lock:
            given = np.full(n, UNLABELLED, dtype="<i2")
            labels = self.journal.board.labels
            given[list(labels)] = list(labels.values())
            found = self.answer
            if found is None:
                chosen, sure = np.full(n, UNLABELLED, dtype="<i2"), np.zeros(n, dtype=np.uint8)
            else:
                chosen, sure = found.chosen.astype("<i2"), np.rint(found.sure * 255).astype(np.uint8)
            return self.version, given.tobytes() + chosen.tobytes() + sure.tobytes()

    def names(self) -> list[str]:
        """The name to show for every node in one line, at most 120 characters; empty where the graph has none."""
        graph = self.graph
        if graph.names is None and (graph.table is None or not graph.table.has("name", "both")):
            return []
        titles = map(graph.title_of, range(graph.num_nodes))
        return graph.kept("studio/names", lambda: [one_line(title, 120) for title in titles])


def _interval(expected: ExpectedAccuracy | None) -> dict[str, float] | None:
    return None if expected is None else asdict(expected)


def _tried(work: Callable[..., Found], *given: Any) -> tuple[Found | None, str]:
    """What it returns, or why it failed: the next label is answered all the same."""
    try:
        return work(*given), ""
    except NaqError as error:
        return None, with_flags(error)
    except Exception as error:
        return None, f"The last prediction failed ({plain(f'{type(error).__name__}: {error}')})."


def _put(queue: asyncio.Queue[int], version: int) -> None:
    if not queue.full():
        queue.put_nowait(version)
