"""Every statement of docs/closed-form.md that is said to hold exactly, in numbers. Numbering as there."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import torch
from scipy.special import log_softmax
from scipy.stats import multivariate_normal

from naq.embedders.closed_form import scatter

D, WAYS = 3, 4


def covariance(seed=0, d=D):
    a = np.random.default_rng(seed).standard_normal((d, d))
    return a @ a.T / d + 0.1 * np.eye(d)


def power(matrix, exponent):
    values, directions = np.linalg.eigh(matrix)
    return (directions * values**exponent) @ directions.T


def squared(z, means, w):
    """(points, ways) |W (z - m)|^2."""
    return (((z[:, None, :] - means[None]) @ w.T) ** 2).sum(axis=2)


def bayes(z, means, covariances):
    """(points, ways) log posterior of Gaussian classes with equal priors, from the densities."""
    logs = [multivariate_normal(m, c).logpdf(z) for m, c in zip(means, covariances, strict=True)]
    return log_softmax(np.stack(logs, axis=1), axis=1)


# 1. Pairs


@pytest.mark.parametrize("size", [2, 7, 40])
def test_1_all_pairs_of_a_class_have_its_covariance_for_scatter(size):
    z = np.random.default_rng(size).standard_normal((size, D)) @ covariance() + 5
    pairs = np.array(list(combinations(range(size), 2)))
    assert np.allclose(scatter(torch.from_numpy(z), pairs), np.cov(z.T, ddof=1), rtol=0, atol=1e-10)


def test_1_classes_are_weighed_by_their_pairs():
    z = np.random.default_rng(0).standard_normal((12, D)) * np.repeat([1.0, 3.0], [5, 7])[:, None]
    parts = [np.array(list(combinations(range(5), 2))), np.array(list(combinations(range(5, 12), 2)))]
    mixed = (10 * np.cov(z[:5].T) + 21 * np.cov(z[5:].T)) / 31
    assert np.allclose(scatter(torch.from_numpy(z), np.concatenate(parts)), mixed, rtol=0, atol=1e-10)


def test_1_the_expectation_by_draws():
    """400,000 pairs from one Gaussian: within four standard errors of its covariance."""
    s, random, count = covariance(), np.random.default_rng(0), 400_000
    ends = random.multivariate_normal(np.ones(D), s, 2 * count)
    found = scatter(torch.from_numpy(ends), np.arange(2 * count).reshape(-1, 2))
    error = np.sqrt((s**2 + np.outer(np.diag(s), np.diag(s))) / count)
    assert (np.abs(found - s) < 4 * error).all()


def test_1_pairs_of_two_classes_add_half_of_the_squared_gap():
    """Exact for all pairs between two finite classes: (S_a + S_b) / 2 + (m_a - m_b)(m_a - m_b)^T / 2, with ddof 0."""
    random = np.random.default_rng(0)
    a, b = random.standard_normal((6, D)), 2 * random.standard_normal((9, D)) + 3
    pairs = np.array([(i, 6 + j) for i in range(6) for j in range(9)])
    gap = a.mean(axis=0) - b.mean(axis=0)
    expected = (np.cov(a.T, ddof=0) + np.cov(b.T, ddof=0)) / 2 + np.outer(gap, gap) / 2
    assert np.allclose(scatter(torch.from_numpy(np.concatenate([a, b])), pairs), expected, rtol=0, atol=1e-10)


# 2. The map


def test_2_softmax_of_distances_is_the_posterior_after_whitening():
    random, s = np.random.default_rng(0), covariance()
    means, z = 2 * random.standard_normal((WAYS, D)), 3 * random.standard_normal((500, D))
    truth = bayes(z, means, [s] * WAYS)
    turn = np.linalg.qr(random.standard_normal((D, D)))[0]
    for w in (power(s, -0.5), turn @ power(s, -0.5), np.linalg.cholesky(np.linalg.inv(s)).T):
        assert np.abs(log_softmax(-squared(z, means, w) / 2, axis=1) - truth).max() < 1e-10
    assert np.abs(log_softmax(-squared(z, means, np.eye(D)) / 2, axis=1) - truth).max() > 0.1


def test_2_unequal_covariances_are_beyond_any_map():
    """The posterior is quadratic in z, which no difference of squared distances under one map is."""
    means = np.random.default_rng(0).standard_normal((2, D))
    z = np.array([0.0, 1.0, 2.0])[:, None] * np.ones(D)  # three points in a line: second differences
    odds = bayes(z, means, [np.eye(D), 2 * np.eye(D)])
    odds = odds[:, 0] - odds[:, 1]
    assert abs(odds[0] - 2 * odds[1] + odds[2]) > 0.5
    for seed in range(5):
        away = squared(z, means, np.random.default_rng(seed).standard_normal((D, D)))
        away = away[:, 0] - away[:, 1]
        assert abs(away[0] - 2 * away[1] + away[2]) < 1e-10


# 3. The loss


def expected_loss(w, means, s, order=80):
    """ProtoNet's loss with true means, averaged over the classes' Gaussians by Gauss-Hermite quadrature."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(order)
    grid = np.stack(np.meshgrid(nodes, nodes, indexing="ij"), axis=-1).reshape(-1, 2) @ power(s, 0.5)
    weight = torch.from_numpy(np.outer(weights, weights).ravel() / (2 * np.pi))
    total, centres = torch.zeros((), dtype=torch.float64), torch.from_numpy(means)
    for c, mean in enumerate(means):
        points = torch.from_numpy(grid + mean)
        away = (((points[:, None, :] - centres[None]) @ w.T) ** 2).sum(dim=2)
        total = total - (weight * torch.log_softmax(-away / 2, dim=1)[:, c]).sum()
    return total / len(means)


def problem():
    return np.array([[0.0, 0.0], [1.5, 0.5], [-0.5, 1.5]]), covariance(1, 2)


def test_3_the_gradient_of_the_expected_loss_vanishes_there():
    means, s = problem()
    best = torch.from_numpy(power(s, -0.5)).requires_grad_()
    (slope,) = torch.autograd.grad(expected_loss(best, means, s), best)
    assert slope.abs().max() < 1e-7
    for other in (torch.eye(2, dtype=torch.float64), 1.3 * best.detach(), torch.from_numpy(power(s, -0.25))):
        other = other.clone().requires_grad_()
        assert torch.autograd.grad(expected_loss(other, means, s), other)[0].abs().max() > 1e-3


def test_3_no_other_map_has_a_lower_loss():
    means, s = problem()
    best = torch.from_numpy(power(s, -0.5))
    least, random = expected_loss(best, means, s), np.random.default_rng(0)
    for size in (0.05, 0.3, 2.0):
        for _ in range(8):
            other = best + size * torch.from_numpy(random.standard_normal((2, 2)))
            assert expected_loss(other, means, s) > least + 1e-7
    turn = torch.from_numpy(np.linalg.qr(random.standard_normal((2, 2)))[0])
    assert abs(expected_loss(turn @ best, means, s) - least) < 1e-10, "up to a rotation"


# 4. Prototypes of few shots


@pytest.mark.parametrize("shots", [1, 5])
def test_4_averaging_shots_changes_the_temperature_only(shots):
    """Means from N(0, B): the posterior given the supports, from the joint Gaussian of query and prototype; B grows."""
    random, s = np.random.default_rng(0), covariance()
    prototypes, z = 2 * random.standard_normal((WAYS, D)), 3 * random.standard_normal((300, D))
    away = squared(z, prototypes, power(s, -0.5))
    flat = log_softmax(-away / 2 * shots / (shots + 1), axis=1)
    errors = []
    for wide in (1e2, 1e4, 1e6):
        b = wide * np.eye(D)
        gain = b @ np.linalg.inv(b + s / shots)
        spread = s + b - gain @ b
        errors.append(np.abs(bayes(z, prototypes @ gain.T, [(spread + spread.T) / 2] * WAYS) - flat).max())
    assert errors[2] < errors[1] / 50 < errors[0] / 2500 and errors[2] < 1e-3
    # With a flat prior a query differs from the prototype by N(0, (1 + 1 / K) S_w).
    assert np.abs(bayes(z, prototypes, [(1 + 1 / shots) * s] * WAYS) - flat).max() < 1e-10
    assert np.array_equal(flat.argmax(axis=1), (-away).argmax(axis=1))


# 5. Where the means vary


@pytest.mark.parametrize("shots", [1, 5])
def test_5_directions_in_which_means_vary_little_count_for_less(shots):
    """S_w = I, means N(0, diag(b)): z and prototype enter as sum g_k z_k p_k, g = K b / (1 + (K + 1) b)."""
    b = np.array([0.01, 0.5, 8.0])
    random = np.random.default_rng(0)
    prototypes, z = random.standard_normal((WAYS, D)), random.standard_normal((200, D))
    gain = b / (b + 1 / shots)
    spread = np.diag(1 + b - gain * b)
    g = shots * b / (1 + (shots + 1) * b)
    bilinear = z @ (g * prototypes).T - (gain**2 / np.diag(spread) * prototypes**2).sum(axis=1) / 2
    assert np.abs(bayes(z, prototypes * gain, [spread] * WAYS) - log_softmax(bilinear, axis=1)).max() < 1e-10
    ratio = g * (shots + 1) / shots
    assert (np.diff(ratio) > 0).all() and (ratio < 1).all()


# 6. Shrinking


def test_6_shrinking_is_the_scatter_of_noisy_vectors():
    """Independent noise of variance v in every direction adds v I: exact for noise that is balanced over its signs."""
    z = np.random.default_rng(0).standard_normal((20, D))
    pairs = np.random.default_rng(1).permutation(20).reshape(-1, 2)
    v, total = 0.37, np.zeros((D, D))
    signs = np.array(np.meshgrid(*[[-1, 1]] * (2 * D))).reshape(2 * D, -1).T
    for sign in signs:
        noisy = z.copy()
        noisy[pairs[:, 0]] += np.sqrt(v) * sign[:D]
        noisy[pairs[:, 1]] += np.sqrt(v) * sign[D:]
        total += scatter(torch.from_numpy(noisy), pairs) / len(signs)
    assert np.allclose(total, scatter(torch.from_numpy(z), pairs) + v * np.eye(D), rtol=0, atol=1e-10)


# 7. Cosines


def test_7_cosine_and_distance_agree_where_lengths_are_equal():
    random = np.random.default_rng(0)
    z, p = random.standard_normal((50, D)), random.standard_normal((WAYS, D))
    one = p / np.linalg.norm(p, axis=1, keepdims=True)
    cosine = z @ one.T / np.linalg.norm(z, axis=1, keepdims=True)
    assert np.array_equal(squared(z, one, np.eye(D)).argmin(axis=1), cosine.argmax(axis=1))
    assert not np.array_equal(squared(z, p, np.eye(D)).argmin(axis=1), cosine.argmax(axis=1))
