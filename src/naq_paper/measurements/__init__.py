"""What cells compute, one module each, named in :data:`naq_paper.measurements.base.MEASUREMENTS`."""

from naq_paper.measurements.base import MEASUREMENTS, Context, perform

__all__ = ["MEASUREMENTS", "Context", "perform"]
