"""Perturbations of a dataset, one module each, named in :data:`naq_paper.perturbations.base.PERTURBATIONS`."""

from naq_paper.perturbations.base import (
    PERTURBATIONS,
    Perturbation,
    Perturbed,
    apply_perturbation,
    register_perturbation,
    resolve_perturbation,
)

__all__ = [
    "PERTURBATIONS",
    "Perturbation",
    "Perturbed",
    "apply_perturbation",
    "register_perturbation",
    "resolve_perturbation",
]
