"""One run of the whole protocol: train, select, test."""

from naq.protocol.result import Result
from naq.protocol.runs import embed, run

__all__ = ["Result", "embed", "run"]
