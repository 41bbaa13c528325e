"""Random bits that a key alone decides, in compiled code: no draw, no order, the same on any machine."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit


@njit(cache=True)
def mixed(x: Any) -> Any:
    """A bijection of 64-bit words in which every bit depends on every bit: the finaliser of SplitMix64."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
