"""Meta-learners, one module each: a module that is added here is known by the name it registers."""

from naq.learners.base import LEARNERS, Learner, register_learner

__all__ = ["LEARNERS", "Learner", "register_learner"]
