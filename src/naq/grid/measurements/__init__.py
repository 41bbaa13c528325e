"""What cells compute, one file each: trainings and measurements."""

from naq.grid.measurements.base import MEASUREMENTS, Context, get_measurement, perform, register_measurement
from naq.registry import discover

discover(__name__, __path__)

__all__ = ["MEASUREMENTS", "Context", "get_measurement", "perform", "register_measurement"]
