"""The one family of errors that NaQ raises for what a caller or a file got wrong.

Every message is one sentence that says what was given, what was expected and what to do.
"""

from __future__ import annotations

import unicodedata
import warnings

LONGEST = 500
"""Characters of a message: what a file holds may be quoted, and files hold anything."""


def plain(text: str, longest: int = LONGEST) -> str:
    """``text`` on one line that can do nothing to a terminal: control characters escaped, the middle left out where it is too long.

    >>> plain("a\x1b[31m b\n")
    'a\\x1b[31m b\\n'
    """
    cut = len(text) > 4 * longest
    if cut:
        text = text[: 2 * longest] + text[-2 * longest :]
    if not text.isprintable():
        text = "".join(c if c.isprintable() else _escaped(c) for c in text)
    if len(text) > longest or cut:
        end = longest // 3
        text = text[: longest - end - 5] + " ... " + text[-end:]
    return text


def _escaped(character: str) -> str:
    if unicodedata.category(character) == "Zs":
        return " "
    return character.encode("unicode_escape").decode("ascii")


def warn(text: object, stacklevel: int = 2) -> None:
    """``warnings.warn`` of a text that is made :func:`plain`."""
    warnings.warn(plain(str(text)), stacklevel=stacklevel + 1)


class NaqError(Exception):
    """Base of every error a user can cause. The command line prints it without a traceback.

    The message is made :func:`~naq.errors.plain`: names and bytes of files may be part of it.
    """

    def __init__(self, message: object = "") -> None:
        super().__init__(plain(str(message)))


class GraphError(NaqError, ValueError):
    """The graph cannot be what it claims to be: edges, features, labels or names do not fit."""


class DataError(NaqError, ValueError):
    """A file or a dataset is missing, damaged or not in the expected format."""


class OptionError(NaqError, ValueError):
    """An argument has a value that cannot be used."""


class TaskError(NaqError, ValueError):
    """Few-shot tasks or class splits that do not fit the graph or each other."""


class TrainingError(NaqError, RuntimeError):
    """Training cannot go on: a loss that is not finite, a checkpoint of another run."""


class MissingDependency(NaqError, ImportError):
    """An optional package is needed and not installed; the message has the install line."""
