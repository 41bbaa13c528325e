"""Meta-learners, one module each: a module that is added here is known by its line in ``LEARNERS``."""

from naq.learners.base import LEARNERS, Learner

__all__ = ["LEARNERS", "Learner"]
