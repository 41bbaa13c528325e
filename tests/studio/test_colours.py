"""Fifty colours: how far apart they are for people with and without all cones."""

from __future__ import annotations

import numpy as np

from naq_studio.colours import COLOURS, SHAPE_NAMES, SHAPES

# Machado, Oliveira, Fernandes 2009, severity 1, on linear light.
SIGHT = {
    "all cones": np.eye(3),
    "no red": np.array([[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]),
    "no green": np.array([[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]),
    "no blue": np.array([[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]),
}  # fmt: skip
TO_LMS = np.array([[0.4122214708, 0.5363325363, 0.0514459929], [0.2119034982, 0.6806995451, 0.1073969566], [0.0883024619, 0.2817188376, 0.6299787005]])  # fmt: skip
TO_LAB = np.array([[0.2104542553, 0.7936177850, -0.0040720468], [1.9779984951, -2.4285922050, 0.4505937099], [0.0259040371, 0.7827717662, -0.8086757660]])  # fmt: skip


def apart(sight: np.ndarray) -> np.ndarray:
    """(50, 50) distances in OKLab."""
    values = np.array([[int(colour[i : i + 2], 16) for i in (1, 3, 5)] for colour in COLOURS]) / 255
    linear = np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)
    lab = np.cbrt(np.clip(linear @ sight.T, 0, 1) @ TO_LMS.T) @ TO_LAB.T
    return np.linalg.norm(lab[:, None] - lab[None], axis=2)


def test_fifty_different_ones():
    assert len(set(COLOURS)) == len(COLOURS) == len(SHAPES) == 50
    assert set(SHAPES) == set(range(len(SHAPE_NAMES)))
    assert len(set(SHAPES[:5])) == 5


def test_colours_can_be_told_apart():
    others = ~np.eye(50, dtype=bool)
    for name, sight in SIGHT.items():
        distance = apart(sight)
        assert distance[:10, :10][others[:10, :10]].min() > 0.06, name
        assert distance[others].min() > 0.035, name
    assert apart(SIGHT["all cones"])[others].min() > 0.05


def test_colours_that_are_close_have_different_shapes():
    shapes = np.array(SHAPES)
    same = (shapes[:, None] == shapes[None]) & ~np.eye(50, dtype=bool)
    assert min(apart(sight)[same].min() for sight in SIGHT.values()) > 0.05
