"""What cells compute, one module each: a module that is added here is known by the name it registers."""

from naq_paper.measurements.base import MEASUREMENTS, Context, Measurement, perform, register_measurement

__all__ = ["MEASUREMENTS", "Context", "Measurement", "perform", "register_measurement"]
