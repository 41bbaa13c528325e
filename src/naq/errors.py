"""The one family of errors that NaQ raises for what a caller or a file got wrong.

Every message is one sentence that says what was given, what was expected and what to do.
"""

from __future__ import annotations


class NaqError(Exception):
    """Base of every error a user can cause. The command line prints it without a traceback."""


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
