r"""The pieces of an unconstrained L-BFGS-B run in compiled code: search direction and Moré-Thuente line search.

Byrd, Lu, Nocedal and Zhu, A limited memory algorithm for bound constrained optimization, SIAM J. Sci. Comput. 16
(1995); Moré and Thuente, Line search algorithms with guaranteed sufficient decrease, ACM TOMS 20 (1994).

An early-stopped optimiser is defined by its path, so the constants and the order of the tests are those of the routine
in ``scipy.optimize.minimize(method="L-BFGS-B")``. Without bounds its compact matrices give the direction of the
two-loop recursion used here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

MEMORY = 10
STEP_MAX = 1e10
MAX_TRIALS = 20
SUFFICIENT_DECREASE = 1e-3
CURVATURE = 0.9
INTERVAL = 0.1

BEST, BEST_F, BEST_G, OTHER, OTHER_F, OTHER_G, LOW, HIGH, WIDTH, WIDTH_BEFORE, START_F, START_G = range(12)
BRACKETED, DECREASED = 12, 13
STATE = 14
"""Places in the line search's state, and their number: the best trial, the other end, the allowed interval, its last
widths, the start; whether a minimiser is bracketed, and whether a step with enough decrease was seen."""


@njit(cache=True)
def dot(a: Any, b: Any) -> Any:
    """Inner product in a fixed order of eight partial sums, which the compiler may hold in vector registers."""
    s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = 0.0
    whole = len(a) - len(a) % 8
    for i in range(0, whole, 8):
        s0 += a[i] * b[i]
        s1 += a[i + 1] * b[i + 1]
        s2 += a[i + 2] * b[i + 2]
        s3 += a[i + 3] * b[i + 3]
        s4 += a[i + 4] * b[i + 4]
        s5 += a[i + 5] * b[i + 5]
        s6 += a[i + 6] * b[i + 6]
        s7 += a[i + 7] * b[i + 7]
    for i in range(whole, len(a)):
        s0 += a[i] * b[i]
    return ((s0 + s1) + (s2 + s3)) + ((s4 + s5) + (s6 + s7))


@njit(cache=True)
def set_direction(
    gradient: Any, steps: Any, changes: Any, curvature: Any, newest: Any, held: Any, theta: Any, out: Any
) -> None:
    """out = - H gradient from the ``held`` last pairs, a ring whose last entry is ``newest``; H0 = 1 / theta."""
    weight = np.empty(MEMORY)
    for i in range(len(out)):
        out[i] = gradient[i]
    for age in range(held):
        pair = (newest - age) % MEMORY
        weight[pair] = dot(steps[pair], out) / curvature[pair]
        for i in range(len(out)):
            out[i] -= weight[pair] * changes[pair, i]
    for i in range(len(out)):
        out[i] /= theta
    for age in range(held - 1, -1, -1):
        pair = (newest - age) % MEMORY
        left = weight[pair] - dot(changes[pair], out) / curvature[pair]
        for i in range(len(out)):
            out[i] += left * steps[pair, i]
    for i in range(len(out)):
        out[i] = -out[i]


@njit(cache=True)
def start_search(state: Any, step: Any, value: Any, slope: Any) -> None:
    """Fill the state for a search from ``value`` and ``slope`` at step 0 whose first trial is ``step``."""
    state[BEST] = state[OTHER] = state[LOW] = state[BRACKETED] = state[DECREASED] = 0.0
    state[BEST_F] = state[OTHER_F] = state[START_F] = value
    state[BEST_G] = state[OTHER_G] = state[START_G] = slope
    state[HIGH] = 5.0 * step
    state[WIDTH] = STEP_MAX
    state[WIDTH_BEFORE] = 2.0 * STEP_MAX


@njit(cache=True)
def next_trial(state: Any, step: Any, value: Any, slope: Any) -> Any:
    """(done, next step) after the trial ``step`` gave ``value`` and ``slope``."""
    floor = SUFFICIENT_DECREASE * state[START_G]
    line = state[START_F] + step * floor
    if value <= line and slope >= 0.0:
        state[DECREASED] = 1.0
    bracketed = state[BRACKETED] > 0.0
    narrow = state[HIGH] - state[LOW] <= INTERVAL * state[HIGH]
    if (
        (bracketed and (step <= state[LOW] or step >= state[HIGH] or narrow))
        or (step == STEP_MAX and value <= line and slope <= floor)
        or (step == 0.0 and (value > line or slope >= floor))
        or (value <= line and abs(slope) <= -CURVATURE * state[START_G])
    ):
        return True, step

    # Before a step with enough decrease is known, the trial is chosen on the function minus that decrease.
    tilt = floor if state[DECREASED] == 0.0 and value <= state[BEST_F] and value > line else 0.0
    state[BEST_F] -= state[BEST] * tilt
    state[OTHER_F] -= state[OTHER] * tilt
    state[BEST_G] -= tilt
    state[OTHER_G] -= tilt
    step = _choose(state, step, value - step * tilt, slope - tilt)
    bracketed = state[BRACKETED] > 0.0
    state[BEST_F] += state[BEST] * tilt
    state[OTHER_F] += state[OTHER] * tilt
    state[BEST_G] += tilt
    state[OTHER_G] += tilt

    if bracketed:
        width = abs(state[OTHER] - state[BEST])
        if width >= 0.66 * state[WIDTH_BEFORE]:
            step = state[BEST] + 0.5 * (state[OTHER] - state[BEST])
        state[WIDTH_BEFORE] = state[WIDTH]
        state[WIDTH] = width
        state[LOW] = min(state[BEST], state[OTHER])
        state[HIGH] = max(state[BEST], state[OTHER])
    else:
        state[LOW] = step + 1.1 * (step - state[BEST])
        state[HIGH] = step + 4.0 * (step - state[BEST])
    step = min(max(step, 0.0), STEP_MAX)
    if bracketed and (step <= state[LOW] or step >= state[HIGH] or state[HIGH] - state[LOW] <= INTERVAL * state[HIGH]):
        step = state[BEST]
    return False, step


@njit(cache=True, error_model="numpy")
def _cubic(from_step: Any, from_g: Any, to_step: Any, to_g: Any, secant: Any) -> Any:
    """(r, gamma): the minimiser of the cubic through both ends is ``from_step + r * (to_step - from_step)``."""
    theta = secant + from_g + to_g
    scale = max(abs(theta), abs(from_g), abs(to_g))
    inside = (theta / scale) ** 2 - (from_g / scale) * (to_g / scale)
    gamma = scale * np.sqrt(max(0.0, inside))
    if to_step < from_step:
        gamma = -gamma
    top = (gamma - from_g) + theta
    bottom = (gamma + (to_g - from_g)) + gamma
    return top / bottom, gamma


@njit(cache=True, error_model="numpy")
def _choose(state: Any, step: Any, value: Any, slope: Any) -> Any:
    """The next step, a safeguarded cubic or quadratic trial; the interval in the state moves."""
    bracketed = state[BRACKETED] > 0.0
    best, best_f, best_g = state[BEST], state[BEST_F], state[BEST_G]
    other, other_f, other_g = state[OTHER], state[OTHER_F], state[OTHER_G]
    opposite = slope * (1.0 if best_g > 0.0 else -1.0) < 0.0
    secant = 3.0 * (best_f - value) / (step - best)
    quadratic = step + slope / (slope - best_g) * (best - step)
    if value > best_f:
        ratio, _ = _cubic(best, best_g, step, slope, secant)
        cubic = best + ratio * (step - best)
        quadratic = best + best_g / (secant / 3.0 + best_g) / 2.0 * (step - best)
        chosen = cubic if abs(cubic - best) < abs(quadratic - best) else cubic + (quadratic - cubic) / 2.0
        state[BRACKETED] = 1.0
    elif opposite:
        ratio, _ = _cubic(step, slope, best, best_g, secant)
        cubic = step + ratio * (best - step)
        chosen = cubic if abs(cubic - step) > abs(quadratic - step) else quadratic
        state[BRACKETED] = 1.0
    elif abs(slope) < abs(best_g):
        ratio, gamma = _cubic(step, slope, best, best_g, secant)
        if ratio < 0.0 and gamma != 0.0:
            cubic = step + ratio * (best - step)
        else:
            cubic = state[HIGH] if step > best else state[LOW]
        nearer = abs(cubic - step) < abs(quadratic - step)
        if bracketed:
            chosen = cubic if nearer else quadratic
            limit = step + 0.66 * (other - step)
            chosen = min(limit, chosen) if step > best else max(limit, chosen)
        else:
            chosen = cubic if abs(cubic - step) > abs(quadratic - step) else quadratic
            chosen = max(state[LOW], min(state[HIGH], chosen))
    elif bracketed:
        ratio, _ = _cubic(step, slope, other, other_g, 3.0 * (value - other_f) / (other - step))
        chosen = step + ratio * (other - step)
    else:
        chosen = state[HIGH] if step > best else state[LOW]

    if value > best_f:
        state[OTHER], state[OTHER_F], state[OTHER_G] = step, value, slope
    else:
        if opposite:
            state[OTHER], state[OTHER_F], state[OTHER_G] = best, best_f, best_g
        state[BEST], state[BEST_F], state[BEST_G] = step, value, slope
    return chosen
