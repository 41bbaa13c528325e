"""Changes of a dataset that the analyses train under, one file each."""

from naq.grid.perturbations.base import (
    PERTURBATIONS,
    Perturbation,
    Perturbed,
    apply_perturbation,
    register_perturbation,
    resolve_perturbation,
)
from naq.registry import discover

discover(__name__, __path__)

__all__ = [
    "PERTURBATIONS",
    "Perturbation",
    "Perturbed",
    "apply_perturbation",
    "register_perturbation",
    "resolve_perturbation",
]
