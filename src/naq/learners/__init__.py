"""Meta-learners, one file each. Every module of this package is imported, and a module that holds a learner registers it."""

from importlib import import_module
from pkgutil import iter_modules

from naq.learners.base import LEARNERS, Learner, register_learner

__all__ = ["LEARNERS", "Learner", "discover", "register_learner"]


def discover() -> None:
    """Import every module of this package."""
    for module in sorted(found.name for found in iter_modules(__path__)):
        import_module(f"{__name__}.{module}")


discover()
