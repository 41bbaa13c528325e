"""Meta-learners, one file each. Importing this package registers them."""

from naq.learners import protonet as _protonet  # noqa: F401
from naq.learners.base import LEARNERS, Learner, register_learner

__all__ = ["LEARNERS", "Learner", "register_learner"]
