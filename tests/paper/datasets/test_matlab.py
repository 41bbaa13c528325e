from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.io import loadmat, savemat

from naq.errors import DataError
from naq_paper.datasets.matlab import read_mat

KINDS = ("f8", "f4", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8")


def content(kind: str) -> dict[str, Any]:
    dense = (np.random.default_rng(0).random((5, 3)) * 100).astype(kind)
    sparse = sp.random(7, 4, 0.4, random_state=1, format="csc")
    return {
        "dense": dense,
        "sparse": sparse,
        "flags": dense > 5,
        "nothing": np.zeros((0, 0)),
        "empty": sp.csc_matrix((3, 3)),
    }


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_the_same_as_scipy_reads(tmp_path: Path, kind: str, compressed: bool) -> None:
    others = {"text": "hello", "cells": np.array([{"a": 1}], dtype=object)}
    arrays = content(kind)
    savemat(path := tmp_path / "x.mat", others | arrays, do_compression=compressed)
    expected, found = loadmat(path), read_mat(path, [*arrays, "absent"])
    assert set(found) == set(arrays)
    for name, array in found.items():
        assert array.shape == expected[name].shape
        if sp.issparse(array):
            assert abs(array - expected[name]).sum() == 0
        else:
            assert np.array_equal(array, expected[name])
            assert array.dtype == expected[name].dtype or name == "flags"


@pytest.mark.parametrize("compressed", [False, True])
def test_every_cut_and_every_flipped_byte_is_one_sentence_or_an_array(tmp_path: Path, compressed: bool) -> None:
    savemat(path := tmp_path / "x.mat", content("f8"), do_compression=compressed)
    whole = bytearray(path.read_bytes())
    for place in range(0, len(whole), 7):
        for damaged in (whole[:place], whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :]):
            path.write_bytes(damaged)
            try:
                found = read_mat(path, list(content("f8")))
            except DataError as error:
                assert len(str(error)) <= 500
                continue
            for array in found.values():
                array.sum()


def test_other_files(tmp_path: Path) -> None:
    path = tmp_path / "x.mat"
    for bytes_, words in ((b"", "header"), (b"\x89HDF\r\n\x1a\n" + b"\0" * 600, "7.3"), (b"x" * 200, "header")):
        path.write_bytes(bytes_)
        with pytest.raises(DataError, match=words):
            read_mat(path, ["a"])


def test_a_compressed_array_that_says_it_is_huge_takes_no_memory(tmp_path: Path) -> None:
    import zlib

    savemat(path := tmp_path / "x.mat", {"a": np.ones(3)})
    head = path.read_bytes()[:128]
    packed = zlib.compress((14).to_bytes(4, "little") + (2**32 - 1).to_bytes(4, "little") + b"\0" * 1000)
    path.write_bytes(head + (15).to_bytes(4, "little") + len(packed).to_bytes(4, "little") + packed)
    with pytest.raises(DataError, match=r"cut off or longer|needs .* of memory"):
        read_mat(path, ["a"])
