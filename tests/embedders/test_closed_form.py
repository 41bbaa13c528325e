from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
import torch

from naq.embedders.closed_form import ClosedForm, gram, nearest_pairs, removal_of, scatter, sharpening_of
from naq.embedders.smoothing import centred
from naq.embedders.smoothing import unit as unit_rows
from naq.errors import OptionError
from naq.neighbors import NeighborTable, mutual_pairs, vector_neighbors
from slow_closed_form import cosines, slow_closed_form, unit


def groups(n: int = 120, d: int = 6, seed: int = 0) -> np.ndarray:
    """Six groups with a scatter that differs from direction to direction."""
    random = np.random.default_rng(seed)
    means = random.standard_normal((6, d)) * 1.5
    return means[random.integers(0, 6, n)] + random.standard_normal((n, d)) * np.linspace(0.1, 1.2, d)


def refined(x: np.ndarray | torch.Tensor, **given: object) -> np.ndarray:
    return ClosedForm(**{"pairs": "mutual", "power": 1.5} | given).fit_transform(x)


def without_scatter(rows: torch.Tensor, pairs: np.ndarray, shrink: float) -> torch.Tensor:
    matrix = removal_of(scatter(rows, pairs), shrink)
    assert matrix is not None
    return centred(rows @ torch.from_numpy(matrix))


def sharpened(rows: torch.Tensor, power: float, block: int = 1 << 16) -> torch.Tensor:
    matrix = sharpening_of(gram(rows, block), power)
    assert matrix is not None
    return unit_rows(rows @ torch.from_numpy(matrix))


def as_rows(x: np.ndarray) -> torch.Tensor:
    return centred(torch.from_numpy(x.astype(np.float32)))


@pytest.mark.parametrize(("k", "shrink", "power"), [(10, 0.5, 1.5), (3, 0.1, 1.0), (5, 2.0, 1.25), (10, 0.5, 0.8)])
@pytest.mark.parametrize("pairs", ["mutual", "nearest"])
def test_both_steps_follow_the_formula(k: int, shrink: float, power: float, pairs: str) -> None:
    x = groups()
    found = refined(x, neighbors=k, pairs=pairs, shrink=shrink, power=power)
    assert found.dtype == np.float32 and found.shape == x.shape
    assert np.abs(cosines(found) - cosines(slow_closed_form(x, k, shrink, power, pairs))).max() < 1e-4


def test_nearest_pairs_are_every_entry_of_the_table() -> None:
    table = NeighborTable(np.array([[1, 2], [0, -1], [-1, -1]]), np.zeros((3, 2)))
    assert nearest_pairs(table).tolist() == [[0, 1], [0, 2], [1, 0]]


def test_scatter_is_a_loop_over_pairs() -> None:
    rows = as_rows(groups(40))
    pairs = np.random.default_rng(0).integers(0, 40, (70, 2))
    z = rows.numpy().astype(np.float64)
    slow = sum(np.outer(z[i] - z[j], z[i] - z[j]) for i, j in pairs) / 140
    for block in (1 << 16, 32, 1):
        assert np.allclose(scatter(rows, pairs, block), slow, rtol=1e-5, atol=1e-9)


def test_the_scatter_that_is_left_is_the_same_in_every_direction() -> None:
    """Without the last normalisation and with little shrinking, S_w becomes the identity up to scale; before it is far from it."""
    rows = as_rows(groups(400))
    pairs = mutual_pairs(vector_neighbors(rows, 10))
    values, directions = np.linalg.eigh(scatter(rows, pairs))
    whitened = rows.double() @ torch.from_numpy(directions / np.sqrt(values) @ directions.T)
    assert np.allclose(scatter(whitened, pairs), np.eye(6), atol=1e-8)
    assert values[-1] / values[0] > 3
    left = np.linalg.eigvalsh(scatter(without_scatter(rows, pairs, 1e-6), pairs))
    assert left[-1] / left[0] < values[-1] / values[0] / 1.5, "rows of length one undo a part"


def test_sharpening_follows_the_formula() -> None:
    rows = as_rows(groups(50))
    z = rows.numpy().astype(np.float64)
    slow = unit(z @ scipy.linalg.fractional_matrix_power(z.T @ z, 0.25).real)
    for block in (1 << 16, 7):
        assert np.abs(cosines(sharpened(rows, 1.5, block).numpy()) - cosines(slow)).max() < 1e-5


def test_power_one_is_no_sharpening() -> None:
    rows = as_rows(groups(50))
    assert np.abs(cosines(sharpened(rows, 1.0).numpy()) - cosines(rows.numpy())).max() < 1e-5
    assert np.abs(cosines(sharpened(rows, 1.5).numpy()) - cosines(rows.numpy())).max() > 0.05


def test_a_huge_shrink_leaves_the_cosines() -> None:
    x = groups(80)
    rows = as_rows(x)
    pairs = mutual_pairs(vector_neighbors(rows, 10))
    once_more = centred(rows).numpy()  # the step ends in centring, which is no identity on centred rows
    assert np.abs(cosines(without_scatter(rows, pairs, 1e9).numpy()) - cosines(once_more)).max() < 1e-5
    assert np.abs(cosines(without_scatter(rows, pairs, 0.5).numpy()) - cosines(once_more)).max() > 0.05


def test_rotated_vectors_have_the_same_cosines() -> None:
    x = groups()
    turn = np.linalg.qr(np.random.default_rng(3).standard_normal((6, 6)))[0]
    assert np.abs(cosines(refined(x)) - cosines(refined(x @ turn))).max() < 1e-3


def test_renumbered_vectors_are_renumbered() -> None:
    x, order = groups(), np.random.default_rng(3).permutation(120)
    assert np.abs(cosines(refined(x))[np.ix_(order, order)] - cosines(refined(x[order]))).max() < 1e-3


def test_the_length_of_a_vector_does_not_matter() -> None:
    x = groups()
    scale = np.random.default_rng(3).uniform(0.5, 5, (120, 1))
    assert np.abs(refined(x) - refined(1e6 * scale * x)).max() < 1e-3


def test_seeded_in_clusters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("naq.neighbors.vectors.EXACT_NODES", {"cpu": 0, "cuda": 0})
    x = groups(300)
    assert np.array_equal(refined(x, seed=1), refined(x, seed=1))
    assert np.abs(cosines(refined(x, seed=1)) - cosines(slow_closed_form(x, 10, 0.5, 1.5))).max() < 0.05


def test_groups_come_apart() -> None:
    """Noise in two directions that the groups do not differ in: after the closed form neighbours are of the same group more often."""
    random = np.random.default_rng(0)
    home = random.integers(0, 5, 400)
    x = np.concatenate(
        [np.eye(5)[home] + 0.15 * random.standard_normal((400, 5)), 0.7 * random.standard_normal((400, 2))], axis=1
    )

    def same(z: np.ndarray) -> float:
        return float((home[vector_neighbors(z, 60).ids] == home[:, None]).mean())

    assert same(refined(x)) > same(x) + 0.04


def test_pairs_that_do_not_differ_leave_the_first_step_out() -> None:
    rows = as_rows(groups(20))
    twice = torch.cat([rows, rows + 1e-8])
    pairs = np.stack([np.arange(20), np.arange(20) + 20], axis=1)
    assert removal_of(scatter(twice, pairs), 0.5) is None, "what is left between copies is rounding"
    form = ClosedForm(neighbors=1).fit(twice)
    assert form.maps[0] is None and form.maps[1] is None and form.maps[2] is not None


def test_no_pairs_leave_the_first_step_out() -> None:
    """In a ring in which everybody's nearest node has a nearer one, nobody is in the list of its nearest: only two of them are mutual."""
    x = np.array([[1.0, 0.0], [0.0, 0.0], [0.0, 0.0]])
    assert ClosedForm(pairs="mutual", neighbors=1).fit(x).maps[0] is None


@pytest.mark.parametrize("pairs", ["mutual", "nearest"])
def test_what_was_fitted_is_transformed_to_the_same_bits(pairs: str) -> None:
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
def test_others_are_mapped_by_the_formula(power: float) -> None:
    """z = u(u(u(u(u(s) - mu_0) M_1) - mu_1) M_2), one row after the other in float64."""
    x, other = groups(150), groups(40, seed=7)
    form = ClosedForm(power=power).fit(x)
    first, mean, second = form.maps
    one = lambda v: v / np.linalg.norm(v)  # noqa: E731
    slow = [one(one(one(one(one(s) - form.center) @ first) - mean) @ second) for s in other]
    assert np.abs(form.transform(other) - np.array(slow)).max() < 1e-4


def test_a_sample_estimates_the_same_map() -> None:
    x = groups(800)
    whole, part = ClosedForm().fit(x), ClosedForm(sample=400).fit(x)
    assert not np.array_equal(whole.maps[0], part.maps[0])
    assert np.linalg.norm(part.maps[0] - whole.maps[0]) / np.linalg.norm(whole.maps[0]) < 0.2
    assert np.array_equal(ClosedForm(sample=800).fit(x).maps[0], whole.maps[0])


def test_asked_too_early_and_other_widths() -> None:
    with pytest.raises(OptionError, match="fit"):
        ClosedForm().transform(groups())
    with pytest.raises(OptionError, match="columns"):
        ClosedForm().fit(groups()).transform(groups()[:, :4])


@pytest.mark.parametrize(
    "given", [{"neighbors": 0}, {"shrink": 0.0}, {"power": -1}, {"pairs": "all"}, {"device": "tpu"}]
)
def test_wrong_parameters(given: dict) -> None:
    with pytest.raises(OptionError, match=next(iter(given))):
        ClosedForm(**given)


@pytest.mark.parametrize(
    "x",
    [
        np.zeros((5, 3)),
        np.ones((5, 3)),
        np.array([[1.0, 2.0, 3.0]]),
        np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]),
        np.array([[3.0], [-1.0], [2.0]]),
        np.array([[1.0, 2.0], [2.0, -1.0]]),
        np.repeat(np.random.default_rng(0).standard_normal((4, 3)), 8, axis=0),
        np.random.default_rng(0).standard_normal((3, 40)),
        np.random.default_rng(0).standard_normal((30, 4)) * 1e30,
    ],
    ids=["zeros", "equal", "one", "three copies", "one dimension", "two", "copies", "wide", "huge"],
)
def test_odd_vectors_have_length_one_or_zero(x: np.ndarray) -> None:
    z = refined(x)
    length = np.linalg.norm(z, axis=1)
    differ = len(np.unique(unit(x).round(6), axis=0)) > 1
    assert np.isfinite(z).all() and z.shape == x.shape and z.dtype == np.float32
    assert (np.abs(length - 1) < 1e-5).all() if differ else (z == 0).all()


def test_copies_stay_copies() -> None:
    x = np.repeat(np.random.default_rng(0).standard_normal((4, 3)), 8, axis=0)
    z = refined(x)
    assert np.abs(z - z[::8].repeat(8, axis=0)).max() < 1e-5
    assert np.abs(cosines(z[::8]) - np.eye(4)).max() > 0.1


def test_zero_vectors_of_all_have_their_place_opposite_to_the_mean() -> None:
    x = groups(60) + 3
    x[[4, 9]] = 0
    z = refined(x)
    assert np.isfinite(z).all() and np.allclose(z[4], z[9], atol=1e-5)


def test_more_neighbours_than_nodes_are_all_of_them() -> None:
    x = groups(12)
    assert np.array_equal(refined(x, neighbors=500), refined(x, neighbors=11))


@pytest.mark.parametrize("x", [np.ones(4), np.array([[1.0, np.nan], [1.0, 2.0]]), np.array([[1e39, 1.0], [1.0, 2.0]])])
def test_what_cannot_be_refined(x: np.ndarray) -> None:
    with pytest.raises(OptionError, match=r"expected \(nodes, d\) numbers, finite in float32"):
        refined(x)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
def test_cuda_gives_the_same_cosines() -> None:
    x = groups(500)
    assert np.abs(cosines(refined(x)) - cosines(refined(x, device="cuda"))).max() < 1e-3
