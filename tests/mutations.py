"""Damage: what disks, networks, editors and people do to files. A file and a random stream in, a damaged file out.

``damaged`` changes bytes as an accident does. The ``rebuilt_*`` functions know a format: they change what is inside and build a file around
it that is well formed, with lengths and CRCs that fit, as a broken program would. The ``resealed_*`` functions also compute our own checksums anew, as a person
with bad intentions would: what is behind a checksum is believed, and may still not end the process.
"""

from __future__ import annotations

import gzip
import io
import json
import lzma
import random
import struct
import warnings
import zipfile
import zlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import safetensors.numpy

from naq.files import sealed
from naq.files.archives import MARK
from naq.files.disk import checksum_of_arrays, checksum_of_bytes

Mutate = Callable[[bytes, random.Random], bytes]

NUMBERS = (0, 1, -1, 127, 128, 255, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, -(2**63))
WORDS = (
    "",
    "\x1b[31mred\x1b[0m",
    "a\nb",
    "\u202e",
    "x" * 3000,
    "NaN",
    "../../etc/passwd",
    "$",
    "\ud800",
    "²",
    "0",
    "-1",
    "1e400",
)


def damaged(content: bytes, draw: random.Random) -> bytes:
    """Bytes changed, lost, doubled or moved; one to three times."""
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        content = draw.choice(_BYTES)(content, draw)
    return content


def _flip(content: bytes, draw: random.Random) -> bytes:
    if not content:
        return b"\0"
    out = bytearray(content)
    for _ in range(draw.choice((1, 1, 2, 8))):
        out[draw.randrange(len(out))] ^= 1 << draw.randrange(8)
    return bytes(out)


def _set(content: bytes, draw: random.Random) -> bytes:
    if not content:
        return b"\xff"
    place = draw.randrange(len(content))
    return content[:place] + bytes([draw.choice((0, 255, 32, 10, 34, draw.randrange(256)))]) + content[place + 1 :]


def _number(content: bytes, draw: random.Random) -> bytes:
    size = draw.choice((1, 2, 4, 8))
    if len(content) < size:
        return content
    place = draw.randrange(len(content) - size + 1)
    value = draw.choice(NUMBERS) & (256**size - 1)
    return content[:place] + value.to_bytes(size, draw.choice(("little", "big"))) + content[place + size :]


def _cut(content: bytes, draw: random.Random) -> bytes:
    return content[: draw.randrange(len(content) + 1)]


def _lose(content: bytes, draw: random.Random) -> bytes:
    start = draw.randrange(len(content) + 1)
    return content[:start] + content[start + draw.choice((1, 4, 16, 512)) :]


def _repeat(content: bytes, draw: random.Random) -> bytes:
    start = draw.randrange(len(content) + 1)
    return content[:start] + content[max(0, start - draw.choice((1, 4, 16, 512))) :]


def _zeros(content: bytes, draw: random.Random) -> bytes:
    start, size = draw.randrange(len(content) + 1), draw.choice((4, 16, 512, 4096))
    return content[:start] + b"\0" * len(content[start : start + size]) + content[start + size :]


def _junk(content: bytes, draw: random.Random) -> bytes:
    start = draw.randrange(len(content) + 1)
    return content[:start] + draw.randbytes(draw.choice((1, 4, 64))) + content[start:]


_BYTES: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    _flip, _flip, _set, _number, _number, _cut, _lose, _repeat, _zeros, _junk,
)  # fmt: skip


def changed_json(value: Any, draw: random.Random) -> Any:
    """The same values but for one, somewhere."""
    if isinstance(value, dict) and value and draw.random() < 0.9:
        name = draw.choice(list(value))
        kind = draw.random()
        if kind < 0.1:
            return {key: each for key, each in value.items() if key != name}
        if kind < 0.15:
            return {(draw.choice(WORDS) if key == name else key): each for key, each in value.items()}
        return {key: changed_json(each, draw) if key == name else each for key, each in value.items()}
    if isinstance(value, list) and value and draw.random() < 0.9:
        place = draw.randrange(len(value))
        return [changed_json(each, draw) if i == place else each for i, each in enumerate(value)]
    if isinstance(value, (int, float)) and not isinstance(value, bool) and draw.random() < 0.5:
        return draw.choice((value + 1, -value, value / 2, 10**30, 1e308, 0))
    return draw.choice((None, True, [], {}, [[]], {"a": 1}, *NUMBERS, *WORDS, 0.5, _deep(draw.choice((50, 100_000)))))


class _deep(list):
    """Stands for brackets within brackets: ``json.dumps`` could not write so many."""

    def __init__(self, depth: int) -> None:
        super().__init__([f"deep:{depth}"])


def json_text(value: Any) -> str:
    text = json.dumps(value)
    for depth in (50, 100_000):
        text = text.replace(f'["deep:{depth}"]', "[" * depth + "]" * depth)
    return text.replace("1" + "0" * 30, "9" * 5000)


def rebuilt_json(content: bytes, draw: random.Random) -> bytes:
    """One value changed, the rest as it was."""
    try:
        return json_text(changed_json(json.loads(content), draw)).encode("utf-8", "surrogatepass")
    except ValueError:
        return damaged(content, draw)


def rebuilt_xz(content: bytes, draw: random.Random) -> bytes:
    return lzma.compress(rebuilt_json(lzma.decompress(content), draw), preset=0)


def resealed_json(content: bytes, draw: random.Random) -> bytes:
    """One value changed, and every checksum within computed anew: what a person does on purpose."""
    try:
        return json_text(_resealed(changed_json(json.loads(content), draw))).encode("utf-8", "surrogatepass")
    except ValueError:
        return damaged(content, draw)


def _resealed(value: Any) -> Any:
    if isinstance(value, list) and not isinstance(value, _deep):
        return [_resealed(each) for each in value]
    if isinstance(value, dict) and "checksum" in value and "base64" not in value:
        return sealed({name: _resealed(each) if name == "records" else each for name, each in value.items()})
    return value


def resealed_xz(content: bytes, draw: random.Random) -> bytes:
    return lzma.compress(resealed_json(lzma.decompress(content), draw), preset=0)


def resealed_zip(content: bytes, draw: random.Random) -> bytes:
    """As :func:`rebuilt_zip`, with checksums in the comment and in the members that fit."""
    content = rebuilt_zip(content, draw, {"json": resealed_json, "xz": resealed_xz})
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        if not archive.comment.startswith(MARK):
            return content
        found = {entry.filename.removesuffix(".npy"): archive.read(entry) for entry in archive.infolist()}
    out = io.BytesIO(content)
    with zipfile.ZipFile(out, "a") as archive:
        sums = {name: checksum_of_bytes(inside) for name, inside in found.items()}
        archive.comment = (MARK + json.dumps(sums).encode())[:65535]
    return out.getvalue()


def resealed_tensors(content: bytes, draw: random.Random) -> bytes:
    """Other facts or other arrays in a safetensors file, with a checksum that fits."""
    arrays = safetensors.numpy.load(content)
    size = int.from_bytes(content[:8], "little")
    facts = json.loads(json.loads(content[8 : 8 + size])["__metadata__"]["facts"])
    name, kind = draw.choice(sorted(arrays)), draw.random()
    if kind < 0.5:
        facts = changed_json(facts, draw)
    elif kind < 0.6:
        del arrays[name]
    elif kind < 0.7:
        arrays[draw.choice(("x", "model/x", "optimizer/0/exp_avg", "best/x"))] = arrays.pop(name)
    elif kind < 0.8:
        arrays[name] = arrays[name].astype(draw.choice((np.int8, np.float64, np.int64)))
    elif kind < 0.9:
        arrays[name] = np.resize(arrays[name], draw.choice(((), (0,), (1,), (3, 3), (7, 5), (200,))))
    else:
        values = np.array(arrays[name], ndmin=1)
        with np.errstate(all="ignore"):
            values.flat[draw.randrange(max(1, values.size)) :] = np.array(draw.choice(NUMBERS[:9])).astype(values.dtype)
        arrays[name] = values.reshape(arrays[name].shape)
    text = json_text(facts)
    checksum = checksum_of_arrays(text, arrays)
    return safetensors.numpy.save(arrays, metadata={"facts": text, "checksum": checksum})


def rebuilt_gz(content: bytes, draw: random.Random) -> bytes:
    """Another table, packed again; or one whose end follows twice."""
    text = rebuilt_text(gzip.decompress(content), draw)
    packed = gzip.compress(text, 1, mtime=0)
    return packed + gzip.compress(text[-40:], 1, mtime=0) if draw.random() < 0.1 else packed


def rebuilt_mat(content: bytes, draw: random.Random) -> bytes:
    """One packed array of a MATLAB 5 file changed inside and packed again."""
    parts, place = [], 128
    while place + 8 <= len(content):
        size = int.from_bytes(content[place + 4 : place + 8], "little")
        parts.append((content[place : place + 4], zlib.decompress(content[place + 8 : place + 8 + size])))
        place += 8 + size
    chosen = draw.randrange(len(parts))
    out = content[:128]
    for number, (kind, inside) in enumerate(parts):
        packed = zlib.compress(damaged(inside, draw) if number == chosen else inside)
        out += kind + len(packed).to_bytes(4, "little") + packed
    return out


def rebuilt_parquet(content: bytes, draw: random.Random) -> bytes:
    """A whole Parquet file with another column: of another type, with holes, nested, or of long texts."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(io.BytesIO(content))
    place, n = draw.randrange(table.num_columns), table.num_rows
    others: list[Callable[[], Any]] = [
        lambda: pa.array([[1, 2]] * n),
        lambda: pa.array([{"a": 1, "b": "x"}] * n),
        lambda: pa.array([None] * n),
        lambda: pa.array([draw.choice(WORDS).encode("utf-8", "replace") for _ in range(n)]),
        lambda: pa.array([draw.choice(NUMBERS) for _ in range(n)]),
        lambda: pa.array([draw.choice((0.5, float("nan"), float("inf"), 1e308, None)) for _ in range(n)]),
        lambda: pa.array(["x" * 5000] * n).dictionary_encode(),
        lambda: pa.array([draw.choice((True, False, None)) for _ in range(n)]),
        lambda: pa.array(range(n), pa.timestamp("ns")),
        lambda: pa.array([draw.randbytes(8) for _ in range(n)], pa.binary()),
        lambda: pa.array([str(one) for one in table.column(place).to_pylist()]),
    ]
    kind = draw.random()
    if kind < 0.15:
        table = table.remove_column(place)
    elif kind < 0.3:
        name = draw.choice(WORDS).encode("utf-8", "replace").decode()
        table = table.rename_columns([name if i == place else old for i, old in enumerate(table.column_names)])
    elif kind < 0.4:
        table = table.append_column(table.field(place), table.column(place))
    elif kind < 0.5:
        table = table.slice(0, draw.choice((0, 1, n - 1)))
    else:
        table = table.set_column(place, table.column_names[place], draw.choice(others)())
    out = io.BytesIO()
    pq.write_table(table, out, compression=draw.choice(("none", "snappy", "zstd")))
    return out.getvalue()


def rebuilt_npy(content: bytes, draw: random.Random) -> bytes:
    """Another header, or other numbers behind it."""
    size = int.from_bytes(content[8:10], "little")
    header, data = content[10 : 10 + size].decode("latin-1"), content[10 + size :]
    if draw.random() < 0.5:
        data = damaged(data, draw)
    else:
        parts = (
            "'<i4'",
            "'<i8'",
            "'<f4'",
            "'<f8'",
            "'|O'",
            "'<U9'",
            "'|V0'",
            "'<U0'",
            "(3,)",
            "(2, 3)",
            "(-1,)",
            "(2147483647, 9)",
            "True",
        )
        old = draw.choice([part for part in (*parts, "()", "False", "shape", "descr") if part in header] or ["{"])
        header = header.replace(old, draw.choice(parts), 1)
    return content[:8] + struct.pack("<H", len(header) & 0xFFFF) + header.encode("latin-1")[:65535] + data


def rebuilt_zip(content: bytes, draw: random.Random, inners: Mapping[str, Mutate] | None = None) -> bytes:
    """A whole zip with other members: renamed, left out, twice, exchanged, changed inside; the comment stays."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = [(entry.filename, archive.read(entry)) for entry in archive.infolist()]
        comment = archive.comment
    place, kind = draw.randrange(len(members)), draw.random()
    name, inside = members[place]
    if kind < 0.1:
        del members[place]
    elif kind < 0.2:
        members.append((name, members[draw.randrange(len(members))][1]))
    elif kind < 0.3:
        members[place] = (draw.choice((*WORDS, "labels.npy", "info.npy")), inside)
    elif kind < 0.4:
        other = draw.randrange(len(members))
        members[place], members[other] = (name, members[other][1]), (members[other][0], inside)
    else:
        known: dict[str, Mutate] = {"npy": rebuilt_npy, "json": rebuilt_json, "xz": rebuilt_xz, **(inners or {})}
        inner = known.get(name.rpartition(".")[2], damaged)
        members[place] = (name, inner(inside, draw))
    out = io.BytesIO()
    with (
        warnings.catch_warnings(),
        zipfile.ZipFile(out, "w", draw.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as archive,
    ):
        warnings.simplefilter("ignore")  # a name twice
        for name, inside in members:
            archive.writestr(zipfile.ZipInfo(name.encode("utf-8", "replace").decode()), inside)
        archive.comment = comment
    return out.getvalue()


def rebuilt_tensors(content: bytes, draw: random.Random) -> bytes:
    """A safetensors file with another header of the right length, or other numbers."""
    size = int.from_bytes(content[:8], "little")
    header, data = content[8 : 8 + size], content[8 + size :]
    if draw.random() < 0.6:
        header = rebuilt_json(header, draw)
    else:
        data = damaged(data, draw)
    return len(header).to_bytes(8, "little") + header + data


def rebuilt_text(content: bytes, draw: random.Random) -> bytes:
    """Lines and cells exchanged, quoted, doubled, and with words that are none."""
    lines = content.decode("utf-8", "replace").split("\n")
    place = draw.randrange(len(lines))
    kind = draw.random()
    if kind < 0.2:
        lines.insert(place, draw.choice(lines))
    elif kind < 0.4:
        cells = lines[place].split(",")
        cells[draw.randrange(len(cells))] = draw.choice((*WORDS, *map(str, NUMBERS), '"', "9" * 5000, "a,b", "\t", ";"))
        lines[place] = ",".join(cells)
    elif kind < 0.6:
        lines[place] = draw.choice(("", ",", ",,,,", '"', "# x", "\ufeff", "\x00", "a" * 100_000))
    elif kind < 0.8:
        draw.shuffle(lines)
    else:
        lines = [line.replace(",", draw.choice(";\t| ")) for line in lines]
    return "\n".join(lines).encode("utf-8", "surrogatepass")
