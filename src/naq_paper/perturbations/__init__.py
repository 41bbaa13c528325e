"""Perturbations of a dataset, one module each: a module that is added here is known by the name it registers."""

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
