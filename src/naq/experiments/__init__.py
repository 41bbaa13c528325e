"""The whole protocol: train, select, test."""

from naq.experiments.result import Result
from naq.experiments.run import embed, run

__all__ = ["Result", "embed", "run"]
