"""What is kept of a graph between two starts: the fitted classifier and the maps, in a folder that its content names."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

import numpy as np

import naq
from naq.errors import DataError, OptionError
from naq.files import cache_folder, read_npz, write_npz
from naq.graph import Graph

CLASSIFIER = "classifier.safetensors"
CODE = ("classifier", "embedders", "neighbors", "graph")
"""Rooms whose code decides what is kept; a change in any of them makes it anew."""


def cache_root() -> Path:
    """The folder of the cache, which the studio needs."""
    folder = cache_folder()
    if folder is None:
        raise OptionError("there is no home folder to keep the fitted classifier in; set NAQ_CACHE to a folder.")
    return folder


def graph_folder(graph: Graph, method: str, seed: int) -> Path:
    """The folder of a graph; its content without labels, the method and the code are in its name."""
    key = f"{graph.without_labels().hash}/{method}/{seed}/{naq.__version__}/{_code_hash()}"
    return cache_root() / "studio" / hashlib.blake2b(key.encode(), digest_size=12).hexdigest()


def read_layout(folder: Path, name: str, nodes: int) -> np.ndarray | None:
    """(n, 2) float32, or None where there is none that can be used."""
    try:
        places = read_npz(folder / f"{name}.npz", kind="map", ours=True).get("places")
    except DataError:
        return None
    if places is None or places.shape != (nodes, 2) or places.dtype != np.float32 or not np.isfinite(places).all():
        return None
    return places


def write_layout(folder: Path, name: str, places: np.ndarray) -> None:
    write_npz(folder / f"{name}.npz", {"places": places}, compression=0)


@cache
def _code_hash() -> str:
    digest = hashlib.blake2b(digest_size=12)
    root = Path(naq.__file__).parent
    for room in CODE:
        for path in sorted((root / room).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()
