"""Changes of a dataset that the analyses train under, one file each."""

from naq.experiments.changes.base import CHANGES, Change, Changed, apply_change, register_change, resolve_change
from naq.registry import discover

discover(__name__, __path__)

__all__ = ["CHANGES", "Change", "Changed", "apply_change", "register_change", "resolve_change"]
