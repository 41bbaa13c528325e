"""What cells compute, one file each: trainings and measurements."""

from naq.experiments.works.base import WORKS, Context, get_work, perform, register_work
from naq.registry import discover

discover(__name__, __path__)

__all__ = ["WORKS", "Context", "get_work", "perform", "register_work"]
