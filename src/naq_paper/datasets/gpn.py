"""GPN's layout (Amazon-Clothing, Amazon-Electronics, DBLP): two ``.mat`` files and an edge list.

``{stem}_train.mat`` and ``{stem}_test.mat`` hold ``Index``, ``Attributes`` and ``Label``; ``{stem}_network``
lists both directions of every edge. The classes of the test file are the test classes.

SciPy's reader of ``.mat`` ends the process on some damaged files, so it runs in a process that may take only the memory
that is free, and hands the arrays over as npz.
"""

from __future__ import annotations

import io
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from naq.device import room
from naq.errors import DataError, GraphError
from naq.files import file_of, open_file, read_npz
from naq.graph import Graph
from naq.io.npz import check_label_array, csr_of
from naq.io.readers import Reader, read_numbers
from naq.tasks import ClassSplit

VALID_CLASSES = {"Amazon_clothing": 17, "Amazon_eletronics": 37, "dblp": 27}
"""Validation classes of the paper's splits, by file stem."""

PAPER_SEED = 1212
_SUFFIXES = ("_train.mat", "_test.mat", "_network")


def stems(folder: Path) -> list[str]:
    """Stems of the GPN datasets in a folder, complete or not."""
    return sorted({f.name.removesuffix(s) for s in _SUFFIXES for f in folder.glob(f"*{s}") if f.is_file()})


def locate(path: str | Path) -> tuple[Path, str]:
    """Folder and stem for a folder, or for any one of the three files."""
    path = Path(path)
    if not path.is_dir():
        for suffix in _SUFFIXES:
            if path.name.endswith(suffix):
                return path.parent, path.name.removesuffix(suffix)
        raise DataError(f"{path} is not part of a GPN dataset; expected NAME_train.mat, NAME_test.mat or NAME_network.")
    found = stems(path)
    if len(found) != 1:
        several = f"holds several datasets ({', '.join(found)}); give one of their files" if found else "holds no .mat"
        raise DataError(f"{path} {several}; expected NAME_train.mat, NAME_test.mat and NAME_network.")
    return path, found[0]


class GpnReader(Reader):
    """``NAME_train.mat``, ``NAME_test.mat`` and ``NAME_network``, by any of them or by their folder."""

    name = "gpn"
    expects = "NAME_train.mat with its companions"
    slow = True

    def fits(self, path: Path) -> bool:
        if path.is_dir():
            return bool(stems(path))
        return path.suffix == ".mat" or path.name.endswith("_network")

    def read(self, path: Path, name: str | None = None) -> Graph:
        return read_gpn(*locate(path), name=name)

    def split(self, path: Path, graph: Graph) -> ClassSplit:
        return split_of_mats(*locate(path))


def read_gpn(folder: Path, stem: str, *, name: str | None = None) -> Graph:
    """The graph of the three files. Every node must be in exactly one of the two ``.mat`` files."""
    paths = [folder / f"{stem}{suffix}" for suffix in _SUFFIXES]
    missing = [p.name for p in paths if not p.is_file()]
    if missing:
        raise DataError(f"{folder} has no {missing[0]}; a GPN dataset is {', '.join(p.name for p in paths)}.")
    contents = read_mats(paths[:2], ["Index", "Attributes", "Label"])
    parts = [_part(content, path) for content, path in zip(contents, paths)]
    if parts[0][1].shape[1] != parts[1][1].shape[1]:
        wide = [p[1].shape[1] for p in parts]
        features = f"{wide[0]:,} features and {paths[1].name} {wide[1]:,}"
        raise DataError(f"{paths[0]} has {features}; expected the same number.")
    _share_no_class(parts[0][2], parts[1][2], folder / stem)
    index = np.concatenate([part[0] for part in parts])
    with open_file(paths[2], "edge list") as content:
        text = io.TextIOWrapper(content, encoding="utf-8", errors="replace")
        edges = read_numbers(text, str(paths[2]), columns=2, dtype=np.int64)
    order = _covering_order(index, edges, folder / stem)
    features = sp.csr_array(sp.vstack([part[1] for part in parts], format="csr"))[order]
    labels = np.concatenate([part[2] for part in parts])[order]
    try:
        return Graph(edges.T, features, labels, nodes=len(index), name=name or stem)
    except GraphError as error:
        raise DataError(f"{folder / stem}: {error}") from error


def split_of_mats(folder: Path, stem: str) -> ClassSplit:
    """The paper's split: test classes from the test file, validation classes drawn with seed 1212."""
    paths = [folder / f"{stem}{suffix}" for suffix in _SUFFIXES[:2]]
    train, test = (_labels(content, path) for content, path in zip(read_mats(paths, ["Label"]), paths))
    _share_no_class(train, test, folder / stem)
    return split_of_labels(sorted(set(train.tolist())), sorted(set(test.tolist())), VALID_CLASSES.get(stem))


def split_of_labels(train: list[int], test: list[int], valid: int | None) -> ClassSplit:
    """Draw ``valid`` classes of ``train`` (a quarter of all classes if None); its others are base classes."""
    count = max(2, round(0.25 * (len(train) + len(test)))) if valid is None else valid
    if count > len(train):
        raise DataError(f"{count} validation classes were asked for, but the training file has {len(train)} classes.")
    drawn = sorted(random.Random(PAPER_SEED).sample(train, count))
    return ClassSplit(tuple(sorted(set(train) - set(drawn))), tuple(drawn), tuple(test))


_CONVERT = """
import sys
try:
    import resource
    resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[1]),) * 2)
except (ImportError, ValueError, OSError):
    pass
import numpy as np, scipy.io, scipy.sparse as sp
keys, paths = sys.argv[2].split(), sys.argv[3:]
for path, out in zip(paths[::2], paths[1::2]):
    print("next", flush=True)
    found = {}
    for name, value in scipy.io.loadmat(path, variable_names=keys).items():
        if sp.issparse(value):
            value = sp.csc_array(value)
            found |= {f"{name}_{part}": getattr(value, part) for part in ("data", "indices", "indptr")}
            found[f"{name}_shape"] = np.array(value.shape[::-1])
        elif not name.startswith("__"):
            found[name] = value
    np.savez(out, **found)
"""
LIBRARIES = 1 << 30
"""Address space of NumPy and SciPy."""
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def read_mats(paths: list[Path], keys: list[str]) -> list[dict[str, Any]]:
    """Variables of ``.mat`` files by name, sparse ones as CSR; all files are read in one process."""
    with tempfile.TemporaryDirectory() as folder:
        outs = [Path(folder) / f"{number}.npz" for number in range(len(paths))]
        places = [str(one) for path, out in zip(paths, outs) for one in (file_of(path, ".mat file"), out)]
        command = [sys.executable, "-c", _CONVERT, str(int(room()) + LIBRARIES), " ".join(keys), *places]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", env=os.environ | ONE_THREAD)
        if done.returncode:
            failed = paths[max(0, done.stdout.count("next") - 1)]
            reason = (done.stderr.strip().splitlines() or ["its reader crashed"])[-1]
            raise DataError(f"{failed} is not a readable .mat file ({reason[:120]}); download it again.")
        return [_variables(read_npz(out, kind=".mat file"), keys, path) for out, path in zip(outs, paths)]


def _variables(arrays: dict[str, np.ndarray], keys: list[str], path: Path) -> dict[str, Any]:
    found: dict[str, Any] = {key: arrays[key] for key in keys if key in arrays}
    for key in keys:
        if f"{key}_indptr" in arrays:  # CSC of a matrix is CSR of its transpose
            found[key] = sp.csr_array(csr_of(arrays, key, path).T)
        elif key not in found:
            raise DataError(f"{path} has no variable {key}; expected {', '.join(keys)}.")
    return found


def _part(content: dict[str, Any], path: Path) -> tuple[np.ndarray, sp.csr_array, np.ndarray]:
    index = _vector(content["Index"], f"{path}: Index")
    labels = _labels(content, path)
    try:
        matrix = sp.csr_array(content["Attributes"])
    except (ValueError, TypeError) as error:
        raise DataError(f"{path}: Attributes is not a usable matrix ({error}); download it again.") from error
    if matrix.ndim != 2 or matrix.dtype.kind not in "biuf" or not len(index) == len(labels) == matrix.shape[0]:
        found = f"Index has {len(index):,} entries, Label {len(labels):,} and Attributes the shape {matrix.shape}"
        raise DataError(f"{path}: {found}; expected one of each per node.")
    return index, matrix, labels


def _labels(content: dict[str, Any], path: Path) -> np.ndarray:
    labels = _vector(content["Label"], f"{path}: Label")
    check_label_array(labels, f"{path}: Label")
    return labels


def _vector(values: Any, title: str) -> np.ndarray:
    array = np.asarray(values)
    if array.size != max(array.shape, default=0) or array.dtype.kind not in "biuf":
        raise DataError(f"{title} has shape {array.shape} and type {array.dtype}; expected one whole number per node.")
    flat = array.ravel().astype(np.float64)
    if not np.isfinite(flat).all() or (flat != np.floor(flat)).any() or (flat < 0).any() or (flat > 2**53).any():
        raise DataError(f"{title} holds numbers that are not whole or are negative; expected 0, 1, 2, ...")
    return flat.astype(np.int64)


def _covering_order(index: np.ndarray, edges: np.ndarray, title: Path) -> np.ndarray:
    """The position of each node 0..n-1 in ``index``; an error where a node is listed twice or not at all."""
    n = len(index)
    if n == 0:
        raise DataError(f"{title}: the .mat files hold no nodes.")
    order = np.argsort(index, kind="stable")
    ids = index[order]
    twice = ids[1:][ids[1:] == ids[:-1]]
    if len(twice):
        raise DataError(f"{title}: node {twice[0]} is listed twice; expected each node once, in train or in test.")
    last = int(max(ids[-1], edges.max(initial=0)))
    if last >= n:
        absent = np.setdiff1d(np.arange(min(last + 1, n + 1)), ids)[0]
        why = f"which together list {n:,} nodes while ids go up to {last}"
        raise DataError(f"{title}: node {absent} is in no .mat file, {why}; expected every node in exactly one.")
    return order


def _share_no_class(train: np.ndarray, test: np.ndarray, title: Path) -> None:
    shared = np.intersect1d(train, test)
    if len(shared):
        where = "in both the train and the test file"
        raise DataError(f"{title}: class {shared[0]} is {where}; expected disjoint classes.")
