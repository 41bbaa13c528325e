"""The probe against SciPy's own L-BFGS-B on the same objective, and against scikit-learn."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression

from naq.heads import LogisticHead
from naq.heads.lbfgs import STATE, next_trial, start_search
from naq.tasks import Tasks
from naq.testing import clustered_tasks, clustered_vectors

FTOL = 2.220446049250313e-09
VECTORS = clustered_vectors()


def word_counts() -> np.ndarray:
    """(400, 60) counts whose row sums differ by orders of magnitude."""
    random = np.random.default_rng(2)
    topics = np.tile(np.exp(random.normal(size=(10, 60))), (40, 1))
    return random.poisson(0.3 * np.exp(1.5 * random.normal(size=(400, 1))) * topics).astype(np.float64)


COUNTS = word_counts()


def objective(w, rows, truth, penalty):
    weights = w.reshape(truth.shape[1], -1)
    scores = rows @ weights[:, :-1].T + weights[:, -1]
    top = scores.max(axis=1, keepdims=True)
    mass = np.exp(scores - top)
    total = mass.sum(axis=1, keepdims=True)
    value = (np.log(total) + top).sum() - (scores * truth).sum() + 0.5 * penalty * (weights[:, :-1] ** 2).sum()
    pull = mass / total - truth
    gradient = np.hstack([pull.T @ rows + penalty * weights[:, :-1], pull.sum(axis=0)[:, None]])
    return value, gradient.ravel()


def by_scipy(embedding, tasks, *, C=1e4, tol=1e-4, ftol=FTOL, max_iter=1000):
    """slots, iterations, objective: one task after the other."""
    truth = np.eye(tasks.way)[tasks.support_slots]
    options = {"maxiter": max_iter, "gtol": tol, "ftol": ftol, "maxcor": 10, "maxls": 20}
    slots, iterations, values = [], [], []
    for support, query in zip(tasks.support, tasks.query, strict=True):
        rows = embedding[support].astype(np.float64)
        start = np.zeros(tasks.way * (rows.shape[1] + 1))
        found = minimize(objective, start, (rows, truth, 1 / C), jac=True, method="L-BFGS-B", options=options)
        weights = found.x.reshape(tasks.way, -1)
        slots.append((embedding[query] @ weights[:, :-1].T + weights[:, -1]).argmax(axis=1))
        iterations.append(found.nit)
        values.append(found.fun)
    return np.array(slots), np.array(iterations), np.array(values)


def check_path(embedding: np.ndarray, tasks: Tasks, *, exact: bool = False, rtol: float = 1e-4, **options: Any) -> None:
    """SciPy's number of iterations, objective and answers; all of the first if ``exact``, else nearly all.

    The first iterates of whole-number features have exact ties, which rounding breaks.
    """
    ours = LogisticHead(**options).solve(embedding, tasks)
    slots, iterations, values = by_scipy(embedding, tasks, **options)
    assert (ours.iterations == iterations).mean() >= (1.0 if exact else 0.9)
    assert np.allclose(ours.objective, values, rtol=rtol, atol=1e-9)
    assert (ours.slots == slots).mean() >= (0.99 if exact else 0.998)


@pytest.mark.parametrize("scale", [1.0, 1e-3, 30.0])
@pytest.mark.parametrize("way, shot", [(2, 1), (2, 4), (5, 1), (5, 5), (10, 2)])
def test_path_of_scipy(way: int, shot: int, scale: float) -> None:
    """More supports than columns (5-way 5-shot on 24) and fewer, and features that are small, plain and large."""
    check_path(scale * VECTORS, clustered_tasks(15, way, shot))


@pytest.mark.parametrize("max_iter", [1, 2, 3, 5, 8, 13])
def test_every_iterate_is_scipys(max_iter: int) -> None:
    random = np.random.default_rng(5)
    dependent = random.normal(size=(400, 3)) @ random.normal(size=(3, 50))
    dependent[::7] = 0.0
    for embedding in (VECTORS, np.maximum(VECTORS, 0.0), COUNTS, dependent):
        check_path(embedding, clustered_tasks(10, 5, 2), exact=True, rtol=1e-5, max_iter=max_iter)


@pytest.mark.parametrize(
    "options", [{"C": 1.0}, {"tol": 1e-2}, {"ftol": 1e-3}, {"C": 0.1, "tol": 1e-6, "ftol": 0.0}], ids=str
)
def test_options_reach_the_optimiser(options: dict[str, float]) -> None:
    check_path(VECTORS, clustered_tasks(10, 5, 2), rtol=1e-6, **options)


def test_badly_scaled_counts_differ_from_scipy_by_rounding_only() -> None:
    """Rounding is amplified along this path: SciPy on permuted columns, an equal problem, moves as much."""
    tasks = clustered_tasks(40, 5, 5)
    ours = LogisticHead().solve(COUNTS, tasks)
    slots, iterations, values = by_scipy(COUNTS, tasks)
    other, _, _ = by_scipy(np.ascontiguousarray(COUNTS[:, ::-1]), tasks)
    assert ours.iterations.mean() == pytest.approx(iterations.mean(), rel=0.05)
    assert np.median(np.abs(ours.objective / values - 1)) < 1e-3
    assert (ours.slots == slots).mean() >= (other == slots).mean() - 0.02


def test_early_stop_is_part_of_the_head() -> None:
    """Solved to the end, the free intercept swallows queries with few words; the stop keeps it small."""
    tasks = clustered_tasks(60, 5, 1)
    stopped = LogisticHead().solve(COUNTS, tasks)
    solved = LogisticHead(tol=1e-9, ftol=0.0, max_iter=20000).solve(COUNTS, tasks)
    right = [(found.slots == tasks.query_slots).mean() for found in (stopped, solved)]
    assert (solved.objective <= stopped.objective + 1e-12).all()
    assert solved.iterations.mean() > 2 * stopped.iterations.mean()
    assert right[0] > right[1] + 0.02


@pytest.mark.parametrize("way, shot", [(5, 1), (10, 2)])
def test_against_installed_scikit_learn(way: int, shot: int) -> None:
    """Later releases stop by another rule, so accuracies agree and single answers may not; they also fit two classes
    with one column of weights, which is another penalty."""
    tasks = clustered_tasks(200, way, shot)
    right = np.empty(len(tasks))
    for task in range(len(tasks)):
        probe = LogisticRegression(C=1e4, max_iter=1000, tol=1e-4)
        probe.fit(VECTORS[tasks.support[task]], tasks.support_slots)
        right[task] = (probe.predict(VECTORS[tasks.query[task]]) == tasks.query_slots).mean()
    ours = (LogisticHead().predict(VECTORS, tasks) == tasks.query_slots).mean()
    assert abs(ours - right.mean()) < 0.005


def test_threads_do_not_matter() -> None:
    tasks = clustered_tasks(30, 5, 3)
    all_threads = LogisticHead().solve(COUNTS, tasks)
    before = numba.get_num_threads()
    numba.set_num_threads(1)
    try:
        one = LogisticHead().solve(COUNTS, tasks)
    finally:
        numba.set_num_threads(before)
    for first, second in zip(all_threads, one, strict=True):
        np.testing.assert_array_equal(first, second)


def test_huge_features_end() -> None:
    tasks = clustered_tasks(3, 5, 2)
    for scale in (1e100, 1e200):
        slots = LogisticHead().predict(scale * VECTORS, tasks)
        assert set(np.unique(slots)) <= set(range(5))


@settings(max_examples=60, deadline=None)
@given(
    curve=st.tuples(*[st.floats(-3, 3) for _ in range(4)]),
    step=st.floats(0.01, 50.0),
    slope=st.floats(-10.0, -0.01),
)
def test_line_search_against_scipys_own(curve, step, slope):
    """Trial by trial on smooth functions with several minima, against the routine SciPy ports to Python."""
    dcsrch = pytest.importorskip("scipy.optimize._dcsrch").DCSRCH
    a, b, c, d = curve

    def function(t):
        value = slope * t + a * (1 - np.cos(t)) + b * t * np.exp(-(t**2)) - b * t + 0.1 * (c * c + 0.1) * t * t
        derivative = slope + a * np.sin(t) + b * (1 - 2 * t * t) * np.exp(-(t**2)) - b + 0.2 * (c * c + 0.1) * t
        return value + d, derivative

    theirs = dcsrch(None, None, 1e-3, 0.9, 0.1, 0.0, 1e10)
    state = np.empty(STATE)
    start_search(state, step, *function(0.0))
    _, _, _, task = theirs._iterate(step, *function(0.0), b"START")
    ours = expected = step
    for _ in range(20):
        value, derivative = function(ours)
        done, ours = next_trial(state, ours, value, derivative)
        expected, _, _, task = theirs._iterate(expected, value, derivative, task)
        assert done == (task[:2] != b"FG")
        assert ours == pytest.approx(float(expected), rel=1e-7)
        if done:
            break
        ours = float(expected)
