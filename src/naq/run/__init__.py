"""One run of the whole protocol: train, select, test."""

from naq.run.config import RunConfig
from naq.run.execution import RunInputs, execute, execute_together, gains_together
from naq.run.result import Result
from naq.run.runs import embed, run

__all__ = ["Result", "RunConfig", "RunInputs", "embed", "execute", "execute_together", "gains_together", "run"]
