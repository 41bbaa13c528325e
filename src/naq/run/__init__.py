"""One run: its configuration with every default resolved; train, select, test; the run folder.

``naq.run`` is this package and the function at once: calling it is :func:`naq.run.run.run`.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

_PUBLIC = {
    "RunConfig": "naq.run.config",
    "Result": "naq.run.result",
    "embed": "naq.run.embed",
    "run_config": "naq.run.run",
}

__all__ = ["Result", "RunConfig", "run_config"]


class _Callable(ModuleType):
    """A package that is called like its main function."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return import_module("naq.run.run").run(*args, **kwargs)

    @property
    def __signature__(self) -> Any:
        from inspect import signature

        return signature(import_module("naq.run.run").run)


sys.modules[__name__].__class__ = _Callable


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'naq.run' has no attribute {name!r}")
    return getattr(import_module(_PUBLIC[name]), name)
