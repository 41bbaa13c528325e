"""Meta-learners, one file each. Every module of this package is imported, and a module that holds a learner registers it."""

from naq.learners.base import LEARNERS, Learner, register_learner
from naq.registry import discover

__all__ = ["LEARNERS", "Learner", "register_learner"]

discover(__name__, __path__)
