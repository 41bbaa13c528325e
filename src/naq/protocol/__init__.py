"""One run of the whole protocol: train, select, test."""

from naq.protocol.config import RunConfig
from naq.protocol.result import Result
from naq.protocol.runs import RunInputs, embed, execute, run

__all__ = ["Result", "RunConfig", "RunInputs", "embed", "execute", "run"]
