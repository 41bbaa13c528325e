"""What a person has said so far: classes, labels, and what came before, so that each step can be undone.

The state is six dictionaries, and a step is a list of changes ``(key, before, after)`` to them: undo puts every
``before`` back, redo every ``after``. Keys:

- ``("class", number)``: ``(name, colour)``; the number of a class never changes, its name may.
- ``("node", node)``: the number of its class, or :data:`NONE` if it belongs to none of them.
- ``("skip", node)``: passed over in the queue.
- ``("keep", node)``: its label was doubted, looked at and kept.
- ``("about", number)``: the name of the class counts before any label; a sentence that describes it, or nothing.
- ``("unknown", 0)``: nodes without a label may belong to none of the classes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from naq.classifier.map import COLOURS
from naq.errors import OptionError

NONE = -1
"""Instead of a class: the person said that the node belongs to none."""
MOST_CLASSES = 500
LONGEST_NAME, LONGEST_ABOUT = 80, 300
Key = tuple[str, int]
Change = tuple[Key, Any, Any]


@dataclass(frozen=True)
class Entry:
    """One line of the journal without its step and time; classes by name, as people write them.

    Attributes:
        action: one of :data:`ACTIONS`, or ``undo`` or ``redo``.
        node: a node, for those that concern one.
        label: the name of a class, for those that concern one.
        value: a new name, the other class, a colour, what the class is about, or ``on`` and ``off``.
    """

    action: str
    node: int | None = None
    label: str = ""
    value: str = ""


ON_NODES = ("label", "unlabel", "none", "skip", "keep")
ON_CLASSES = ("make", "describe", "rename", "merge", "recolour", "delete")
ACTIONS = (*ON_NODES, *ON_CLASSES, "unknown")


@dataclass(frozen=True)
class GivenLabels:
    """What was said at one moment, by name.

    Attributes:
        labels: the class of each labelled node, ascending, without those that belong to none.
        about: a description, which may be empty, of every class whose name counts before any label.
        numbers: of all classes.
        unknown: whether nodes may belong to none of the classes.
    """

    labels: dict[int, str]
    about: dict[str, str]
    numbers: dict[str, int]
    unknown: bool


class Board:
    """The present state, the steps that led to it and those that were undone."""

    def __init__(self) -> None:
        self.classes: dict[int, tuple[str, int]] = {}
        self.labels: dict[int, int] = {}
        self.skipped: dict[int, bool] = {}
        self.kept: dict[int, bool] = {}
        self.about: dict[int, str] = {}
        self.settings: dict[int, bool] = {}
        self._kinds: dict[str, dict[int, Any]] = {
            "class": self.classes,
            "node": self.labels,
            "skip": self.skipped,
            "keep": self.kept,
            "about": self.about,
            "unknown": self.settings,
        }
        self._numbers: dict[str, int] = {}
        self.done: list[list[Change]] = []
        self.undone: list[list[Change]] = []
        self._next = 0

    def step(self, rows: Iterable[Entry]) -> list[Change]:
        """Do all rows as one step and return what they changed; an error leaves everything as it was."""
        rows = list(rows)
        if len(rows) == 1 and rows[0].action in ("undo", "redo"):
            return self._back() if rows[0].action == "undo" else self._again()
        changes: list[Change] = []
        before = self._next
        try:
            for row in rows:
                for key, value in self._wanted(row):  # applied one by one: a label may follow the class it makes
                    changes.append((key, self._kinds[key[0]].get(key[1]), value))
                    self._put(key, value)
        except OptionError:
            self._revert(changes)
            self._next = before
            raise
        self.done.append(changes)
        self.undone.clear()
        return changes

    def mark(self) -> tuple[list[list[Change]], int]:
        """What :meth:`take_back` needs in addition to the changes."""
        return list(self.undone), self._next

    def take_back(self, action: str, mark: tuple[list[list[Change]], int]) -> None:
        """As if the last step, whose first row has this action, had never been."""
        (self._again if action == "undo" else self._back)()
        self.undone, self._next = mark

    def _back(self) -> list[Change]:
        if not self.done:
            raise OptionError("there is nothing to undo.")
        changes = self.done.pop()
        self._revert(changes)
        self.undone.append(changes)
        return changes

    def _again(self) -> list[Change]:
        if not self.undone:
            raise OptionError("there is nothing to redo.")
        changes = self.undone.pop()
        for key, _, after in changes:
            self._put(key, after)
        self.done.append(changes)
        return changes

    def _revert(self, changes: list[Change]) -> None:
        for key, before, _ in reversed(changes):
            self._put(key, before)

    def _put(self, key: Key, value: Any) -> None:
        table = self._kinds[key[0]]
        if key[0] == "class" and key[1] in table:
            self._numbers.pop(table[key[1]][0], None)
        if value is None:
            table.pop(key[1], None)
            return
        table[key[1]] = value
        if key[0] == "class":
            self._numbers[value[0]] = key[1]

    @property
    def unknown(self) -> bool:
        """Whether nodes may belong to none of the classes."""
        return bool(self.settings)

    def given_labels(self) -> GivenLabels:
        labels = {node: self.classes[number][0] for node, number in sorted(self.labels.items()) if number != NONE}
        about = {self.classes[number][0]: text for number, text in sorted(self.about.items())}
        return GivenLabels(labels, about, dict(self._numbers), self.unknown)

    def number(self, name: str) -> int:
        """The number of the class of that name."""
        if name not in self._numbers:
            raise OptionError(f"there is no class {name!r}.")
        return self._numbers[name]

    def name(self, number: int) -> str:
        """The name of the class of that number."""
        if number not in self.classes:
            raise OptionError("this class is not there any more; it was deleted, merged or undone.")
        return self.classes[number][0]

    def _wanted(self, row: Entry) -> Iterator[tuple[Key, Any]]:
        """Keys and new values of one row, in order."""
        if row.action in ON_NODES:
            if row.node is None:
                raise OptionError(f"the action {row.action!r} needs a node.")
            yield from self._on_node(row, row.node)
        elif row.action == "make":
            yield from self._make(row.label, row.value)
        elif row.action in ON_CLASSES:
            yield from self._on_class(row, self.number(clean_name(row.label)))
        elif row.action == "unknown":
            if row.value not in ("on", "off"):
                raise OptionError(f"unknown is {row.value!r}; expected on or off.")
            yield ("unknown", 0), True if row.value == "on" else None
        else:
            raise OptionError(f"action is {row.action!r}; expected one of {', '.join((*ACTIONS, 'undo', 'redo'))}.")

    def _on_node(self, row: Entry, node: int) -> Iterator[tuple[Key, Any]]:
        if row.action == "label":
            name = clean_name(row.label)
            if name not in self._numbers:  # a line written by hand names a class that nobody made
                yield from self._make(name, "")
            yield ("node", node), self._numbers[name]
        elif row.action == "skip":
            yield ("skip", node), True
            return
        elif row.action == "keep":
            if node not in self.labels:
                raise OptionError("this node has no label to keep; give it one.")
            yield ("keep", node), True
            return
        else:
            yield ("node", node), NONE if row.action == "none" else None
        if node in self.skipped:
            yield ("skip", node), None
        if node in self.kept:
            yield ("keep", node), None

    def _make(self, given: str, colour: str) -> Iterator[tuple[Key, Any]]:
        name = clean_name(given)
        if name in self._numbers:
            raise OptionError(f"there is a class {name!r} already; choose another name.")
        if len(self.classes) >= MOST_CLASSES:
            raise OptionError(f"there are {MOST_CLASSES} classes already, which is the most.")
        used = Counter(colour for _, colour in self.classes.values())
        chosen = clean_colour(colour) if colour else min(range(len(COLOURS)), key=lambda one: (used[one], one))
        self._next += 1
        yield ("class", self._next - 1), (name, chosen)

    def _on_class(self, row: Entry, number: int) -> Iterator[tuple[Key, Any]]:
        key = ("class", number)
        name, colour = self.classes[number]
        if row.action == "rename":
            new = clean_name(row.value)
            if self._numbers.get(new, number) != number:
                raise OptionError(f"there is a class {new!r} already; merge the two, or choose another name.")
            yield key, (new, colour)
        elif row.action == "recolour":
            yield key, (name, clean_colour(row.value))
        elif row.action == "describe":
            yield ("about", number), clean_line(row.value, LONGEST_ABOUT, "description")
        else:
            target = None if row.action == "delete" else self.number(clean_name(row.value))
            if target == number:
                raise OptionError("a class cannot be merged with itself; choose another.")
            for node in [node for node, own in self.labels.items() if own == number]:
                yield ("node", node), target
                if node in self.kept:
                    yield ("keep", node), None
            if number in self.about:
                yield ("about", number), None
            yield key, None


def clean_name(name: str) -> str:
    """The name of a class as it is kept: one line, no blanks around it."""
    clean = clean_line(name, LONGEST_NAME, "name")
    if not clean:
        raise OptionError("the name of a class is empty; give it one.")
    return clean


def clean_line(text: str, longest: int, what: str) -> str:
    clean = _without_controls(text)
    if len(clean) > longest:
        raise OptionError(f"the {what} of a class has {len(clean):,} characters; {longest} at most.")
    if any(0xD800 <= ord(one) < 0xE000 for one in clean):
        raise OptionError(f"the {what} of a class is not valid Unicode; type it again.")
    return clean


def one_line(name: str, longest: int = 200) -> str:
    """A node's name as people can read it in one line."""
    clean = _without_controls(name[: longest + 1].encode("utf-8", "replace").decode())
    return clean if len(name) <= longest else clean[:longest] + "…"


def _without_controls(text: str) -> str:
    return " ".join("".join(" " if ord(one) < 32 or 127 <= ord(one) < 160 else one for one in text).split())


def clean_colour(value: str) -> int:
    """A place in :data:`COLOURS`."""
    if not (value.isascii() and value.isdigit() and len(value) < 9 and int(value) < len(COLOURS)):
        raise OptionError(f"colour is {value[:20]!r}; expected a number from 0 to {len(COLOURS) - 1}.")
    return int(value)
