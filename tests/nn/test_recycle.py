from __future__ import annotations

import gc

import numpy as np
import torch

from naq.nn.rows import Recycler


def test_a_living_tensor_is_never_handed_out_twice() -> None:
    recycler, random = Recycler(1 << 20), np.random.default_rng(0)
    living: list[tuple[torch.Tensor, float]] = []
    for step in range(500):
        if living and random.random() < 0.45:
            living.pop(int(random.integers(len(living))))
        tensor = recycler.empty(int(random.integers(1, 40)), int(random.integers(1, 40)))
        tensor.fill_(step)
        living.append((tensor, float(step)))
        assert all(bool((t == value).all()) for t, value in living)


def test_a_dead_tensors_memory_is_used_again() -> None:
    recycler = Recycler()
    address = recycler.empty(10, 10).data_ptr()
    gc.collect()
    assert recycler.empty(5, 20).data_ptr() == address
    assert recycler.empty(10, 10).data_ptr() == address
    held = recycler.empty(10, 10)
    assert recycler.empty(10, 10).data_ptr() != held.data_ptr()


def test_views_keep_memory_alive() -> None:
    recycler = Recycler()
    for view in (lambda t: t[2:], lambda t: t.detach(), lambda t: t.T, lambda t: t.numpy(), lambda t: t.view(-1)[5:]):
        kept = view(recycler.empty(10, 10).fill_(3.0))
        other = recycler.empty(10, 10)
        other.fill_(7.0)
        assert (np.asarray(kept) == 3).all()


def test_far_larger_buffers_are_not_lent_for_little() -> None:
    recycler = Recycler()
    address = recycler.empty(1000).data_ptr()
    assert recycler.empty(10).data_ptr() != address
    assert recycler.empty(250).data_ptr() == address


def test_beyond_the_limit_torch_takes_over() -> None:
    recycler = Recycler(limit=4 * 150)
    one = recycler.empty(100).fill_(1)
    two = recycler.empty(100).fill_(2)
    three = recycler.empty(100).fill_(3)
    assert [float(t.mean()) for t in (one, two, three)] == [1, 2, 3]
    assert sum(buffer.nbytes for buffer, _ in recycler._buffers) <= 600


def test_shapes() -> None:
    recycler = Recycler()
    for shape in ((3, 4, 5), (7,), (0, 4), (1, 1)):
        tensor = recycler.empty(*shape)
        assert tensor.shape == shape and tensor.dtype == torch.float32 and tensor.is_contiguous()
