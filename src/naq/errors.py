"""What NaQ reports: one family of errors, warnings, and how far work is.

The message of an error is one sentence that says what was given, what was expected and what to do.
"""

from __future__ import annotations

import re
import unicodedata
import warnings
from collections.abc import Callable, Mapping
from typing import Any

Listener = Callable[[str, Mapping[str, Any]], None]
"""Called with (phase, facts) as work goes on, e.g. ``("train", {"done": 16, "total": 160})``; for progress displays."""
LONGEST = 500
"""Characters of a message: what a file holds may be quoted, and files hold anything."""
_FLAG = re.compile(r"naq [a-z]+ [^;]*|(?<![\w'\"-])--(no-)?([a-z][a-z-]*)")


def unbroken(listener: Listener) -> Listener:
    """The listener until it fails, which is a warning; a ``NaqError``, and what its ``raises`` lists, stop the work."""
    failed: list[Exception] = []
    raises = (NaqError, *getattr(listener, "raises", ()))

    def call(phase: str, facts: Mapping[str, Any]) -> None:
        try:
            if not failed:
                listener(phase, facts)
        except raises:
            raise
        except Exception as error:
            failed.append(error)
            name = getattr(listener, "__name__", type(listener).__name__)
            warn(f"listener {name} failed ({type(error).__name__}: {error}); the run goes on without it.", stacklevel=4)

    call.raises = raises  # type: ignore[attr-defined]  # for the runs of several seeds
    return call


def counted(listener: Listener, phase: str, **facts: Any) -> Callable[[int, int], None]:
    """``progress(done, total)`` of work in one phase, for a listener."""
    return lambda done, total: listener(phase, {**facts, "done": done, "total": total})


def plain(text: str, longest: int = LONGEST) -> str:
    """``text`` on one line, safe for a terminal: control characters escaped, the middle left out if it is too long.

    >>> plain("a\x1b[31m b\n")
    'a\\x1b[31m b\\n'
    """
    cut = len(text) > 4 * longest
    if cut:
        text = text[: 2 * longest] + text[-2 * longest :]
    if not text.isprintable():
        shown = (" " if unicodedata.category(c) == "Zs" else c.encode("unicode_escape").decode("ascii") for c in text)
        text = "".join(c if c.isprintable() else other for c, other in zip(text, shown))
    if len(text) > longest or cut:
        end = longest // 3
        text = text[: longest - end - 5] + " ... " + text[-end:]
    return text


def name_arguments(text: str) -> str:
    """With arguments of Python for flags of the command line, which stay where a whole command is quoted.

    >>> name_arguments("name it with --label, give --no-header, or run: naq import --mmap")
    'name it with label=, give header=False, or run: naq import --mmap'
    """

    def named(found: re.Match[str]) -> str:
        if found[2] is None:
            return found[0]
        return found[2].replace("-", "_") + ("=False" if found[1] else "=")

    return _FLAG.sub(named, text)


def with_flags(message: BaseException | str) -> str:
    """What an error or a warning says in the command line: the text as it was written."""
    return message if isinstance(message, str) else str(message.args[0] if message.args else message)


class Notice(UserWarning):
    """A warning for people; ``str`` names arguments of Python."""

    def __str__(self) -> str:
        return name_arguments(self.args[0])


def warn(text: object, stacklevel: int = 2) -> None:
    """``warnings.warn`` of a :class:`Notice`; the text is made :func:`plain`."""
    warnings.warn(Notice(plain(str(text))), stacklevel=stacklevel + 1)


class NaqError(Exception):
    """Base of every error a user can cause; ``str`` names arguments of Python. The command line prints it without a
    traceback, :func:`with_flags`.

    The message is made :func:`~naq.errors.plain`: names and bytes of files may be part of it.
    """

    def __init__(self, message: object = "") -> None:
        super().__init__(plain(str(message)))

    def __str__(self) -> str:
        return name_arguments(super().__str__())


class GraphError(NaqError, ValueError):
    """The graph cannot be what it claims to be: edges, features, labels or names do not fit."""


class DataError(NaqError, ValueError):
    """A file or a dataset is missing, damaged or not in the expected format."""


class OptionError(NaqError, ValueError):
    """An argument has a value that cannot be used."""


class NoSuchItem(OptionError, IndexError):
    """An index out of range."""


class TaskError(NaqError, ValueError):
    """Few-shot tasks or class splits that do not fit the graph or each other."""


class TrainingError(NaqError, RuntimeError):
    """Training cannot go on: a loss that is not finite, a checkpoint of another run."""


class MissingDependency(NaqError, ImportError):
    """An optional package is needed and not installed; the message has the install line."""
