from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.io import loadmat, savemat

from naq.errors import DataError
from naq.io import load, split_for
from naq_paper.datasets.gpn import VALID_CLASSES, read_gpn, read_mats, split_of_labels

TRAIN, TEST = {3: 0, 0: 1, 4: 0}, {2: 2, 1: 2}
CLOTHING_TEST = [2, 9, 11, 14, 20, 22, 25, 28, 30, 31, 38, 41, 46, 48, 51, 54, 55, 61, 62, 65]
CLOTHING_VALID = {70, 68, 26, 24, 52, 35, 12, 67, 44, 47, 76, 29, 37, 73, 4, 0, 71}

Write = Callable[..., Path]


def test_nodes_go_where_their_index_says(write_gpn: Write) -> None:
    graph = read_gpn(write_gpn(TRAIN, TEST), "Toy")
    assert graph.labels.tolist() == [1, 2, 2, 0, 0]
    assert graph.features.toarray().tolist() == [[1, 0, 0], [2, 0, 1], [3, 0, 0], [4, 0, 1], [5, 0, 0]]
    assert graph.num_edges == 5
    assert graph.changes == {"self_loops_dropped": 0, "duplicates_merged": 0, "made_undirected": 0}
    assert graph.name == "Toy"


@pytest.mark.parametrize("file", ["", "Toy_train.mat", "Toy_test.mat", "Toy_network"])
def test_load_by_folder_or_any_file(write_gpn: Write, file: str) -> None:
    assert load(write_gpn(TRAIN, TEST) / file).num_nodes == 5


def test_dense_attributes_and_row_vectors(write_gpn: Write) -> None:
    flat = {"Attributes": np.ones((2, 3)), "Index": np.array([[2, 1]]), "Label": np.array([[2.0, 2.0]])}
    assert read_gpn(write_gpn(TRAIN, TEST, test=flat), "Toy").labels.tolist() == [1, 2, 2, 0, 0]


@pytest.mark.parametrize(
    ("train", "test", "change", "message"),
    [
        (
            {3: 0, 0: 1, 6: 0},
            TEST,
            {},
            "node 4 is in no .mat file, which together list 5 nodes while ids go up to 6",
        ),
        (TRAIN, TEST, {"edges": [(0, 5)]}, "node 5 is in no .mat file"),
        (TRAIN, {2: 2, 3: 2}, {}, "node 3 is listed twice; expected each node once"),
        (TRAIN, {2: 0, 1: 2}, {}, "class 0 is in both the train and the test file"),
        (
            TRAIN,
            TEST,
            {"train": {"Label": None}},
            "Toy_train.mat has no variable Label; expected Index, Attributes, Label",
        ),
        (TRAIN, TEST, {"test": {"Label": np.array([2.5, 2])}}, "Label holds numbers that are not whole"),
        (TRAIN, TEST, {"test": {"Label": np.array([np.nan, 2])}}, "Label holds numbers that are not whole"),
        (
            TRAIN,
            TEST,
            {"test": {"Label": np.array([1e12, 2])}},
            "a label is 1000000000000; number the classes",
        ),
        (TRAIN, TEST, {"test": {"Label": np.array([2.0])}}, "Index has 2 entries, Label 1"),
        (TRAIN, TEST, {"test": {"Label": np.ones((2, 2))}}, r"Label has shape \(2, 2\)"),
        (TRAIN, TEST, {"test": {"Label": "ab"}}, "Label"),
        (TRAIN, TEST, {"test": {"Attributes": sp.csc_matrix((2, 4))}}, "has 3 features and Toy_test.mat 4"),
        (TRAIN, TEST, {"test": {"Attributes": "word"}}, "Attributes"),
        (
            TRAIN,
            TEST,
            {"test": {"Attributes": np.array([[1, np.inf, 0], [0, 0, 0]])}},
            "features",
        ),
    ],
)
def test_bad_content(write_gpn: Write, train: Any, test: Any, change: Any, message: str) -> None:
    folder = write_gpn(train, test, **change)
    with pytest.raises(DataError, match=message):
        read_gpn(folder, "Toy")


def test_bad_network(write_gpn: Write) -> None:
    folder = write_gpn(TRAIN, TEST)
    (folder / "Toy_network").write_text("0\t1\n1\tx\n")
    with pytest.raises(DataError, match=r"Toy_network, line 2: '1\\tx' cannot be read; expected 2 whole numbers"):
        load(folder)
    (folder / "Toy_network").write_text("0\t-1\n")
    with pytest.raises(DataError, match="edge 0"):
        load(folder)


def test_damaged_missing_and_ambiguous(write_gpn: Write) -> None:
    folder = write_gpn(TRAIN, TEST)
    whole = (folder / "Toy_test.mat").read_bytes()
    for damaged in (b"", b"no mat file at all", whole[:200], whole[:-20]):
        (folder / "Toy_test.mat").write_bytes(damaged)
        with pytest.raises(DataError, match=r"Toy_test.mat (is not a readable .mat|has no variable)"):
            load(folder)
    (folder / "Toy_test.mat").unlink()
    with pytest.raises(DataError, match=r"has no Toy_test.mat; a GPN dataset is Toy_train.mat"):
        load(folder)
    write_gpn(TRAIN, TEST, stem="Other")
    with pytest.raises(DataError, match=r"holds several datasets \(Other, Toy\)"):
        load(folder)


def test_split_of_clothing_is_the_papers() -> None:
    train = [c for c in range(77) if c not in CLOTHING_TEST]
    split = split_of_labels(train, CLOTHING_TEST, VALID_CLASSES["Amazon_clothing"])
    assert set(split.valid) == CLOTHING_VALID
    assert split.test == tuple(CLOTHING_TEST)
    assert (len(split.base), len(split.valid), len(split.test)) == (40, 17, 20)


def test_split_of_a_folder(write_gpn: Write) -> None:
    train = {node: node // 2 for node in range(12)}
    test = {node: node // 2 for node in range(12, 16)}
    folder = write_gpn(train, test)
    split = split_for(folder, load(folder), seed=3)
    assert split.test == (6, 7)
    assert len(split.valid) == 2 and len(split.base) == 4
    assert split == split_for(folder / "Toy_test.mat", load(folder), seed=4)


def test_too_few_classes_for_validation(write_gpn: Write) -> None:
    folder = write_gpn({0: 0}, {1: 1})
    with pytest.raises(DataError, match="2 validation classes were asked for, but the training file has 1"):
        split_for(folder, load(folder))


@pytest.mark.parametrize("compressed", [False, True])
def test_mat_as_scipy_reads_it(tmp_path: Path, compressed: bool) -> None:
    kinds = ("f8", "f4", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8")
    arrays = {kind: (np.random.default_rng(0).random((5, 3)) * 100).astype(kind) for kind in kinds}
    arrays |= {"sparse": sp.random(7, 4, 0.4, random_state=1, format="csc"), "empty": sp.csc_matrix((3, 3))}
    others = {"text": "hello", "cells": np.array([{"a": 1}], dtype=object)}
    savemat(path := tmp_path / "x.mat", others | arrays, do_compression=compressed)
    expected, found = loadmat(path), read_mats([path], list(arrays))[0]
    for name, array in found.items():
        assert array.shape == expected[name].shape
        same = abs(array - expected[name]).sum() == 0
        assert same if sp.issparse(array) else np.array_equal(array, expected[name])


def test_mat_of_an_array_that_claims_to_be_huge(tmp_path: Path) -> None:
    savemat(path := tmp_path / "x.mat", {"a": np.ones(3)})
    packed = zlib.compress((14).to_bytes(4, "little") + (2**32 - 1).to_bytes(4, "little") + b"\0" * 1000)
    path.write_bytes(path.read_bytes()[:128] + b"\x0f\0\0\0" + len(packed).to_bytes(4, "little") + packed)
    with pytest.raises(DataError, match=r"x\.mat"):
        read_mats([path], ["a"])
