"""Import the paper's own task files into a task file of ours.

The authors keep their tasks as pickles, ``<N>way_<K>shot.pkl``: a tuple (validation list, test list) of tasks, a task being
(support ids, support labels, query ids, query labels) with ids as NumPy arrays and labels as torch tensors. A pickle is a
program, so it is first read as text, with no opcode admitted that such a file does not need, and then run with a stand-in for
every name it may ask for: no NumPy and no torch code is called by it, nothing is imported for it, and only whole numbers come out.
The package itself reads no pickle; that is why this tool is outside it.

    python tools/import_paper_tasks.py downstream_tasks/CoraFull --out cora_full.tasks.npz --graph cora_full.npz
"""

from __future__ import annotations

import io
import pickle
import pickletools
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NoReturn

import numpy as np
import scipy.sparse as sp
import typer

from naq.errors import DataError, NaqError, TaskError
from naq.graph import Graph
from naq.io import load
from naq.tasks import ClassSplit, Tasks, save_task_file

MAX_BYTES = 32 << 20
MAX_OPCODES = 1_000_000
MAX_DEPTH = 24
MAX_STORAGE = 1 << 16
"""Well above an honest file: 550 tasks, 20-way 5-shot, take 2.6 MB, 53,000 opcodes, a depth of 7 and storages of 1.7 kB."""

_NAME = re.compile(r"(\d{1,3})way_(\d{1,3})shot\.pkl")
_PUTS = {"BINPUT", "LONG_BINPUT", "MEMOIZE"}
_GETS = {"BINGET", "LONG_BINGET"}
_ADMITTED = {
    *("PROTO", "FRAME", "STOP", "MARK", "GLOBAL", "STACK_GLOBAL", "REDUCE", "BUILD", *_PUTS, *_GETS),
    *("NONE", "NEWTRUE", "NEWFALSE", "BININT", "BININT1", "BININT2", "LONG1"),
    *("BINUNICODE", "SHORT_BINUNICODE", "BINBYTES", "SHORT_BINBYTES", "BYTEARRAY8"),
    *("EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "EMPTY_LIST", "APPEND", "APPENDS"),
}


def scan(data: bytes) -> None:
    """Read a pickle without running it: known opcodes only, a memo without gaps, few of them, not nested deep.

    A gap in the memo matters because the unpickler makes room for every index below the one it is told: six bytes could ask for
    64 GB.
    """
    stack: list[int | None] = []  # the depth of each value, None for a mark
    memo: dict[int, int | None] = {}
    end = 0
    for count, (opcode, argument, position) in enumerate(pickletools.genops(data)):
        if opcode.name not in _ADMITTED:
            raise DataError(f"it uses the pickle opcode {opcode.name}, which a task file does not need.")
        if count >= MAX_OPCODES:
            raise DataError(f"it has more than {MAX_OPCODES:,} opcodes; no task file is that long.")
        if opcode.name in _PUTS:
            index = len(memo) if argument is None else int(argument)
            if index > len(memo):
                raise DataError(f"it asks for a memo of {index + 1:,} entries while it has {len(memo):,}.")
            memo[index] = stack[-1]
        elif opcode.name in _GETS:
            stack.append(memo[int(argument or 0)])
        else:
            _follow(opcode, stack)
        if stack and (stack[-1] or 0) > MAX_DEPTH:
            raise DataError(f"it is nested deeper than {MAX_DEPTH}; a task file is not.")
        end = (position or 0) + 1
    if end != len(data):
        raise DataError(f"it has {len(data) - end:,} bytes after its end.")


def _follow(opcode: Any, stack: list[int | None]) -> None:
    """What an opcode does to the depths on the stack."""
    taken: list[int] = []
    if pickletools.markobject in opcode.stack_before:
        while (depth := stack.pop()) is not None:
            taken.append(depth)
        below = opcode.stack_before.index(pickletools.markobject)
    else:
        below = len(opcode.stack_before)
    taken += [stack.pop() or 0 for _ in range(below)]
    grown = (
        taken.pop() if opcode.name in ("APPEND", "APPENDS", "BUILD") else 0
    )  # a value that takes in others and stays
    for kind in opcode.stack_after:
        stack.append(None if kind is pickletools.markobject else max(grown, 1 + max(taken, default=-1)))


class StandIn:
    """What a pickle gets for a name it asks for. It has no attributes to set and can be called only as the real thing would be."""

    __slots__ = ()

    def __setstate__(self, state: Any) -> NoReturn:
        raise DataError("it tries to change what a name stands for.")


class ArrayClass(StandIn):
    """For ``numpy.ndarray``, which is only handed on."""

    __slots__ = ()


class NoHooks(StandIn):
    """For ``collections.OrderedDict()``, the hooks that a tensor does not have."""

    __slots__ = ()

    def __call__(self) -> None:
        return None


class Encode(StandIn):
    """For ``_codecs.encode(text, 'latin1')``, how protocol 2 writes bytes."""

    __slots__ = ()

    def __call__(self, text: str, encoding: str) -> bytes:
        if encoding != "latin1":
            raise DataError(f"it encodes text as {encoding!r}; bytes of an array are latin1.")
        return text.encode("latin1")


class WholeNumber:
    """A type of whole numbers, e.g. ``<i8``; for what ``numpy.dtype`` makes."""

    __slots__ = ("code", "order")

    def __init__(self, code: str) -> None:
        self.code, self.order = code, "|"

    def __setstate__(self, state: tuple) -> None:
        _, order, *rest = state
        if order not in ("<", ">", "|") or any(rest[:3]):
            raise DataError("it has an array of a compound type; only whole numbers are read.")
        self.order = order


class TypeOf(StandIn):
    """For ``numpy.dtype``: whole numbers only."""

    __slots__ = ()

    def __call__(self, code: Any, align: Any = False, copy: Any = False) -> WholeNumber:
        if not isinstance(code, str) or not re.fullmatch("[iu][1248]", code):
            raise DataError(f"it has an array of type {str(code)[:20]!r}; only arrays of whole numbers are read.")
        return WholeNumber(code)


class Ids:
    """A one-dimensional array of whole numbers, made from its bytes."""

    __slots__ = ("values",)

    def __init__(self) -> None:
        self.values = np.empty(0, dtype=np.int64)

    def fill(self, raw: Any, kind: Any, shape: Any) -> Ids:
        if not isinstance(kind, WholeNumber) or not isinstance(raw, bytes | bytearray):
            raise DataError("it has an array that is not made of whole numbers.")
        sides_fit = isinstance(shape, tuple) and len(shape) == 1 and isinstance(shape[0], int)
        if not sides_fit or shape[0] * int(kind.code[1]) != len(raw):
            raise DataError("it has an array whose shape does not fit its bytes; node ids are one row.")
        values = np.frombuffer(bytes(raw), dtype=np.dtype(kind.order + kind.code))
        if values.size and int(values.max()) >= 2**62:
            raise DataError("it has numbers that no node id can have.")
        self.values = values.astype(np.int64)
        return self

    def __setstate__(self, state: tuple) -> None:
        _, shape, kind, _, raw = state
        self.fill(raw, kind, shape)


class Reconstruct(StandIn):
    """For NumPy's ``_reconstruct(ndarray, (0,), b'b')``: an empty array, filled by the state that follows."""

    __slots__ = ()

    def __call__(self, kind: Any, shape: Any, code: Any) -> Ids:
        if not isinstance(kind, ArrayClass) or shape != (0,):
            raise DataError("it makes an array other than NumPy does, which begins with no entries.")
        return Ids()


class FromBuffer(StandIn):
    """For NumPy's ``_frombuffer(bytes, dtype, shape, order)``, protocol 5."""

    __slots__ = ()

    def __call__(self, raw: Any, kind: Any, shape: Any, order: Any) -> Ids:
        return Ids().fill(raw, kind, shape)


@dataclass(frozen=True)
class Labels(StandIn):
    """A one-dimensional tensor of 64-bit numbers: the bytes of its storage, and which of them are its own."""

    storage: bytes
    offset: int
    size: int
    stride: int

    def values(self) -> np.ndarray | None:
        """The numbers, or None if the storage is not of the form known.

        A legacy storage is a few small pickles, which are left alone, then the count of its numbers and the numbers themselves.
        """
        for count in range((len(self.storage) - 8) // 8, 0, -1):
            start = len(self.storage) - 8 * count
            if int.from_bytes(self.storage[start - 8 : start], "little") == count:
                numbers = np.frombuffer(self.storage[start:], dtype="<i8")
                own = numbers[self.offset :: self.stride][: self.size]
                return own if len(own) == self.size else None
        return None


class Storage(StandIn):
    """For torch's ``_load_from_bytes``: the bytes are kept, and never unpickled."""

    __slots__ = ()

    def __call__(self, raw: Any) -> bytes:
        if not isinstance(raw, bytes) or len(raw) > MAX_STORAGE:
            raise DataError(f"it has a tensor whose storage is not bytes, at most {MAX_STORAGE:,} of them.")
        return raw


class Tensor(StandIn):
    """For torch's ``_rebuild_tensor_v2``."""

    __slots__ = ()

    def __call__(self, storage: Any, offset: Any, size: Any, stride: Any, *rest: Any) -> Labels:
        whole = isinstance(size, tuple) and isinstance(stride, tuple) and len(size) == len(stride) == 1
        numbers = [offset, *size, *stride] if whole else []
        if not isinstance(storage, bytes) or not all(type(n) is int and 0 <= n < MAX_BYTES for n in numbers or [None]):
            raise DataError("it has a tensor that is not one row of labels.")
        return Labels(storage, offset, size[0], max(1, stride[0]))


_NAMES: dict[tuple[str, str], StandIn] = {
    ("numpy", "ndarray"): ArrayClass(),
    ("numpy", "dtype"): TypeOf(),
    ("numpy.core.multiarray", "_reconstruct"): Reconstruct(),
    ("numpy._core.multiarray", "_reconstruct"): Reconstruct(),
    ("numpy.core.numeric", "_frombuffer"): FromBuffer(),
    ("numpy._core.numeric", "_frombuffer"): FromBuffer(),
    ("_codecs", "encode"): Encode(),
    ("torch._utils", "_rebuild_tensor_v2"): Tensor(),
    ("torch.storage", "_load_from_bytes"): Storage(),
    ("collections", "OrderedDict"): NoHooks(),
}


class TaskUnpickler(pickle.Unpickler):  # S301 is about pickles that may name anything: this one can name ten stand-ins
    """Runs a scanned pickle with stand-ins for the names it may use."""

    def find_class(self, module: str, name: str) -> StandIn:
        if (module, name) not in _NAMES:
            raise DataError(f"it asks for {f'{module}.{name}'[:80]!r}, which a task file does not need.")
        return _NAMES[module, name]


def read_pickle(path: Path) -> Any:
    """What a task pickle holds, with :class:`Ids` and :class:`Labels` in the place of arrays and tensors."""
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise DataError(f"it has {size:,} bytes; task files have fewer than {MAX_BYTES:,}.")
        data = path.read_bytes()
        scan(data)
        return TaskUnpickler(io.BytesIO(data), fix_imports=False).load()
    except DataError as error:
        raise DataError(f"{path.name} is refused and nothing was run for it: {error}") from error
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}.") from error
    except Exception as error:  # a damaged pickle may raise nearly anything
        raise DataError(
            f"{path.name} is not a readable task pickle ({type(error).__name__}); download it again."
        ) from error


def read_tasks(path: Path, way: int, shot: int, counts: tuple[int, int]) -> tuple[list[Tasks], int]:
    """Validation and test tasks of one file, and how many rows of labels could not be read."""
    content = read_pickle(path)
    if not isinstance(content, tuple) or len(content) != 2 or not all(isinstance(part, list) for part in content):
        raise TaskError(f"{path.name} is not a tuple of two lists; expected validation and test tasks.")
    found, unread = [], 0
    for part, tasks, count in zip(("valid", "test"), content, counts):
        if len(tasks) != count:
            raise TaskError(f"{path.name} has {len(tasks)} {part} tasks; expected {count}.")
        support, query = [], []
        for index, task in enumerate(tasks):
            try:
                ids, skipped = _ids_of_task(task, way)
            except TaskError as error:
                raise TaskError(f"{path.name}, {part} task {index}: {error}") from error
            support.append(ids[0])
            query.append(ids[1])
            unread += skipped
        try:
            found.append(Tasks(_stacked(support, way * shot), _stacked(query, len(query[0])), way, shot, part))
        except TaskError as error:
            raise TaskError(f"{path.name}, {part} tasks: {error}") from error
    return found, unread


def _stacked(rows: list[np.ndarray], length: int) -> np.ndarray:
    for index, row in enumerate(rows):
        if len(row) != length:
            raise TaskError(f"task {index} has {len(row)} ids where {length} were expected.")
        if row.size and row.min() < 0:
            raise TaskError(f"task {index} has the node id {row.min()}; ids begin at 0.")
    return np.stack(rows)


def _ids_of_task(task: Any, way: int) -> tuple[list[np.ndarray], int]:
    """Support and query ids; labels must be 0, 0, ..., 1, 1, ... as far as they can be read."""
    if not isinstance(task, tuple) or len(task) != 4 or not isinstance(task[0], Ids) or not isinstance(task[2], Ids):
        raise TaskError("expected (support ids, support labels, query ids, query labels).")
    unread = 0
    for ids, labels in ((task[0], task[1]), (task[2], task[3])):
        if not isinstance(labels, Labels | Ids):
            raise TaskError("labels are neither a tensor nor an array of whole numbers.")
        values = labels.values if isinstance(labels, Ids) else labels.values()
        if values is None:
            unread += 1
        elif not np.array_equal(values, np.repeat(np.arange(way), len(ids.values) // way)):
            raise TaskError(f"labels are not 0 to {way - 1} in order, each equally often; the ids have another order.")
    return [task[0].values, task[2].values], unread


def read_folder(folder: Path, counts: tuple[int, int]) -> tuple[list[Tasks], list[str]]:
    """The tasks of every file of a folder, and remarks on what was passed over."""
    files = {(int(m[1]), int(m[2])): path for path in sorted(folder.glob("*.pkl")) if (m := _NAME.fullmatch(path.name))}
    if not files:
        raise DataError(f"{folder} has no file named like 5way_1shot.pkl; give the folder of one dataset.")
    sets: list[Tasks] = []
    remarks = []
    for (way, shot), path in sorted(files.items()):
        if way < 2 or shot < 1:
            remarks.append(f"{path.name} is left out: tasks have at least two classes and one support of each.")
            continue
        found, unread = read_tasks(path, way, shot, counts)
        sets += found
        if unread:
            remarks.append(f"{path.name}: {unread} rows of labels could not be read; they follow from the order.")
    if not sets:
        raise DataError(f"{folder} has no tasks of two classes or more.")
    queries = {tasks.queries for tasks in sets}
    if len(queries) > 1:
        raise TaskError(f"the files have {sorted(queries)} queries per class; expected the same everywhere.")
    return sets, remarks


def check_classes(sets: list[Tasks]) -> dict[str, int]:
    """How many classes the tasks of each part have, judged without labels: slots that share a node are of one class.

    Refused are tasks where validation and test share a class, or where two slots of a task are the same class. Classes that were
    drawn seldom may still count as two.
    """
    nodes: list[np.ndarray] = []
    slots: list[np.ndarray] = []
    owner: list[tuple[str, int]] = []  # of each slot: its part and a number for its task
    for number, tasks in enumerate(sets):
        for ids, per_class in ((tasks.support, tasks.shot), (tasks.query, tasks.queries)):
            nodes.append(ids.ravel())
            slots.append(len(owner) + np.repeat(np.arange(len(tasks) * tasks.way), per_class))
        owner += [(tasks.part, (number << 32) + task) for task in range(len(tasks)) for _ in range(tasks.way)]
    _, compact = np.unique(np.concatenate(nodes), return_inverse=True)
    slot_of, count = np.concatenate(slots), len(owner)
    size = count + int(compact.max()) + 1
    links = sp.coo_array((np.ones(len(slot_of), dtype=np.int8), (slot_of, count + compact)), shape=(size, size))
    component = sp.csgraph.connected_components(links, directed=False)[1][:count]
    part = np.array([name for name, _ in owner])
    shared = np.intersect1d(component[part == "valid"], component[part == "test"])
    if len(shared):
        raise TaskError(f"{len(shared)} classes are in validation and in test tasks; the two may not meet.")
    pairs = np.stack([np.array([task for _, task in owner]), component], axis=1)
    if len(np.unique(pairs, axis=0)) != count:
        raise TaskError("two slots of a task share nodes with the same class; the files do not fit each other.")
    return {name: len(np.unique(component[part == name])) for name in ("valid", "test")}


def split_by_labels(sets: list[Tasks], graph: Graph) -> ClassSplit:
    """The class split that the tasks imply, once every slot holds one class of its own."""
    labels = graph.require_labels("checking tasks")
    used: dict[str, set[int]] = {"valid": set(), "test": set()}
    for tasks in sets:
        tasks.check(graph)
        used[tasks.part] |= set(np.unique(labels[tasks.nodes()]).tolist())
    base = set(np.unique(labels[labels >= 0]).tolist()) - used["valid"] - used["test"]
    return ClassSplit(*(tuple(sorted(part)) for part in (base, used["valid"], used["test"])))


def summary(sets: list[Tasks], classes: dict[str, int]) -> str:
    """A table of what was read."""
    lines = [f"{'setting':<16}{'part':<7}{'tasks':>6}{'queries':>9}{'nodes':>8}"]
    lines += [
        f"{f'{t.way}-way {t.shot}-shot':<16}{t.part:<7}{len(t):>6}{t.queries:>9}{len(t.nodes()):>8,}" for t in sets
    ]
    return "\n".join([*lines, f"classes: {classes['valid']} in validation, {classes['test']} in test, none in both"])


app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command()
def import_tasks(
    folder: Annotated[Path, typer.Argument(help="Folder of files like 5way_1shot.pkl of one dataset.")],
    out: Annotated[Path, typer.Option(help="The task file to write, X.tasks.npz.")],
    graph: Annotated[str, typer.Option(help="Graph to check the tasks against; its labels give the class split.")] = "",
    valid: Annotated[int, typer.Option(help="Validation tasks per file.")] = 50,
    test: Annotated[int, typer.Option(help="Test tasks per file.")] = 500,
) -> None:
    """Import the paper's task pickles into one npz."""
    sets, remarks = read_folder(folder, (valid, test))
    classes = check_classes(sets)
    split = None
    if graph:
        split = split_by_labels(sets, load(graph))
        classes = {part: len(split.part(part)) for part in classes}
    else:
        remarks.append(
            "no graph was given, so the file stores no class split; it is read off the tasks when they are used."
        )
    written = save_task_file(out, sets, split)
    typer.echo("\n".join([summary(sets, classes), *remarks, f"{written}: {written.stat().st_size:,} bytes"]))


def main() -> None:
    try:
        app()
    except NaqError as error:
        typer.echo(f"error: {error}", err=True)
        raise SystemExit(1) from error


if __name__ == "__main__":
    main()
