"""One run: its configuration with every default resolved; train, select, test; the run folder.

``naq.run`` is this package and the function at once: calling it is :func:`naq.run.run.run`.
"""

from __future__ import annotations

import sys
from importlib import import_module
from inspect import signature
from types import ModuleType
from typing import Any

from naq.options import on_first_use

__all__ = ["Result", "RunConfig"]


class _Callable(ModuleType):
    """A package that is called like its main function."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return import_module("naq.run.run").run(*args, **kwargs)

    @property
    def __signature__(self) -> Any:
        return signature(import_module("naq.run.run").run)


sys.modules[__name__].__class__ = _Callable
__getattr__ = on_first_use(__name__, {"RunConfig": "config", "Result": "result"})
