from __future__ import annotations

import numpy as np
import pytest
import torch

from naq.embedders.closed_form import ClosedForm, gram, removal_of, scatter, sharpening_of
from naq.embedders.smoothing import center
from naq.errors import OptionError
from slow_closed_form import cosines, slow_closed_form, unit


def groups(n=120, d=6, seed=0):
    """Six groups with a scatter that differs from direction to direction."""
    random = np.random.default_rng(seed)
    means = random.standard_normal((6, d)) * 1.5
    return means[random.integers(0, 6, n)] + random.standard_normal((n, d)) * np.linspace(0.1, 1.2, d)


def refined(x, **given):
    return ClosedForm(**{"pairs": "mutual", "power": 1.5} | given).fit_transform(x)


def as_rows(x):
    return center(torch.from_numpy(x.astype(np.float32)))


@pytest.mark.parametrize(("k", "shrink", "power"), [(10, 0.5, 1.5), (3, 0.1, 1.0), (5, 2.0, 1.25), (10, 0.5, 0.8)])
@pytest.mark.parametrize("pairs", ["mutual", "nearest"])
def test_both_steps_follow_the_formula(k, shrink, power, pairs):
    x = groups()
    found = refined(x, neighbors=k, pairs=pairs, shrink=shrink, power=power)
    assert found.dtype == np.float32 and found.shape == x.shape
    assert np.abs(cosines(found) - cosines(slow_closed_form(x, k, shrink, power, pairs))).max() < 1e-4


def test_blocks_change_nothing():
    rows, pairs = as_rows(groups(40)), np.random.default_rng(0).integers(0, 40, (70, 2))
    for block in (32, 7, 1):
        assert np.allclose(scatter(rows, pairs, block), scatter(rows, pairs), rtol=1e-9, atol=1e-12)
        assert np.allclose(gram(rows, block), gram(rows), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kind", ["rotated", "renumbered", "of other lengths"])
def test_what_cosines_do_not_depend_on(kind):
    x, random = groups(), np.random.default_rng(3)
    order = random.permutation(120) if kind == "renumbered" else np.arange(120)
    turn = np.linalg.qr(random.standard_normal((6, 6)))[0] if kind == "rotated" else np.eye(6)
    scale = 1e6 * random.uniform(0.5, 5, (120, 1)) if kind == "of other lengths" else 1
    other = refined((scale * x @ turn)[order])
    assert np.abs(cosines(refined(x))[np.ix_(order, order)] - cosines(other)).max() < 1e-3


def test_seeded_in_clusters(monkeypatch):
    monkeypatch.setattr("naq.neighbors.vectors.EXACT_NODES", {"cpu": 0, "cuda": 0})
    x = groups(300)
    assert np.array_equal(refined(x, seed=1), refined(x, seed=1))
    assert np.abs(cosines(refined(x, seed=1)) - cosines(slow_closed_form(x, 10, 0.5, 1.5))).max() < 0.05


def test_pairs_that_do_not_differ_leave_the_first_step_out():
    rows = as_rows(groups(20))
    twice = torch.cat([rows, rows + 1e-8])
    pairs = np.stack([np.arange(20), np.arange(20) + 20], axis=1)
    assert removal_of(scatter(twice, pairs), 0.5) is None, "what is left between copies is rounding"
    form = ClosedForm(neighbors=1).fit(twice)
    assert form.maps[0] is None and form.maps[1] is None and form.maps[2] is not None


def test_the_least_scatter_and_the_least_variance_that_count():
    assert removal_of(1e-13 * np.eye(3), 0.5) is None and removal_of(1e-10 * np.eye(3), 0.5) is not None
    found = np.sort(np.linalg.norm(sharpening_of(np.diag([1.0, 1e-6, 1e-12]), 1.75), axis=0))
    assert np.allclose(found, np.array([1e-9, 1e-6, 1.0]) ** 0.375, rtol=1e-5)


def test_no_pairs_leave_the_first_step_out():
    x = np.array([[1.0, 0.0], [0.0, 0.0], [0.0, 0.0]])
    assert ClosedForm(pairs="mutual", neighbors=1).fit(x).maps[0] is None


@pytest.mark.parametrize("pairs", ["mutual", "nearest"])
def test_what_was_fitted_is_transformed_to_the_same_bits(pairs):
    x = groups(200).astype(np.float32)
    form = ClosedForm(pairs=pairs)
    fitted = form.fit_transform(x)
    assert np.array_equal(form.transform(x), fitted) and np.array_equal(
        ClosedForm(pairs=pairs).fit(x).transform(x), fitted
    )
    assert np.array_equal(form.transform(torch.from_numpy(x)), fitted)
    again = ClosedForm()
    again.center, again.maps = form.center, form.maps
    assert np.array_equal(again.transform(x), fitted), "center and maps are all there is"


@pytest.mark.parametrize("power", [1.0, 1.75])
def test_others_are_mapped_by_the_formula(power):
    """z = u(u(u(u(u(s) - mu_0) M_1) - mu_1) M_2), one row after the other in float64."""
    x, other = groups(150), groups(40, seed=7)
    form = ClosedForm(power=power).fit(x)
    first, mean, second = form.maps
    one = lambda v: v / np.linalg.norm(v)  # noqa: E731
    slow = [one(one(one(one(one(s) - form.center) @ first) - mean) @ second) for s in other]
    assert np.abs(form.transform(other) - np.array(slow)).max() < 1e-4


def test_a_sample_estimates_the_same_map():
    x = groups(800)
    whole, part = ClosedForm().fit(x), ClosedForm(sample=400).fit(x)
    assert not np.array_equal(whole.maps[0], part.maps[0])
    assert np.linalg.norm(part.maps[0] - whole.maps[0]) / np.linalg.norm(whole.maps[0]) < 0.2
    assert np.array_equal(ClosedForm(sample=800).fit(x).maps[0], whole.maps[0])


def test_asked_too_early_and_other_widths():
    with pytest.raises(OptionError, match="fit"):
        ClosedForm().transform(groups())
    with pytest.raises(OptionError, match="columns"):
        ClosedForm().fit(groups()).transform(groups()[:, :4])


@pytest.mark.parametrize(
    "given", [{"neighbors": 0}, {"shrink": 0.0}, {"power": -1}, {"pairs": "all"}, {"device": "tpu"}]
)
def test_wrong_parameters(given):
    with pytest.raises(OptionError, match=next(iter(given))):
        ClosedForm(**given)


@pytest.mark.parametrize("x", [
    np.zeros((5, 3)), np.ones((5, 3)), np.array([[1.0, 2.0, 3.0]]),
    np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), np.array([[3.0], [-1.0], [2.0]]),
    np.array([[1.0, 2.0], [2.0, -1.0]]), np.repeat(np.random.default_rng(0).standard_normal((4, 3)), 8, axis=0),
    np.random.default_rng(0).standard_normal((3, 40)), np.random.default_rng(0).standard_normal((30, 4)) * 1e30,
], ids=["zeros", "equal", "one", "three copies", "one dimension", "two", "copies", "wide", "huge"])  # fmt: skip
def test_odd_vectors_have_length_one_or_zero(x):
    z = refined(x)
    length = np.linalg.norm(z, axis=1)
    differ = len(np.unique(unit(x).round(6), axis=0)) > 1
    assert np.isfinite(z).all() and z.shape == x.shape and z.dtype == np.float32
    assert (np.abs(length - 1) < 1e-5).all() if differ else (z == 0).all()


def test_zero_vectors_of_all_have_their_place_opposite_to_the_mean():
    x = groups(60) + 3
    x[[4, 9]] = 0
    z = refined(x)
    assert np.isfinite(z).all() and np.allclose(z[4], z[9], atol=1e-5)


def test_more_neighbours_than_nodes_are_all_of_them():
    x = groups(12)
    assert np.array_equal(refined(x, neighbors=500), refined(x, neighbors=11))


@pytest.mark.parametrize("x", [np.ones(4), np.array([[1.0, np.nan], [1.0, 2.0]]), np.array([[1e39, 1.0], [1.0, 2.0]])])
def test_what_cannot_be_refined(x):
    with pytest.raises(OptionError, match="vectors"):
        refined(x)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
def test_cuda_gives_the_same_cosines():
    x = groups(500)
    assert np.abs(cosines(refined(x)) - cosines(refined(x, device="cuda"))).max() < 1e-3
