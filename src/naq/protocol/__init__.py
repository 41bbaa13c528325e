"""One run of the whole protocol: train, select, test."""

from naq.protocol.config import RunConfig
from naq.protocol.execution import RunInputs, execute, execute_together, gains_together
from naq.protocol.result import Result
from naq.protocol.runs import embed, run

__all__ = ["Result", "RunConfig", "RunInputs", "embed", "execute", "execute_together", "gains_together", "run"]
