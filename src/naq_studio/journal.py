"""The journal: every action as lines of a plain CSV, appended and flushed to the disk before it is confirmed.

``step,rows,action,node,name,class,value,time``: the lines of one step have the same number, and ``rows`` says how
many there are. One line of the file is one line of the table, whatever a name holds, so a line that was damaged by
hand costs only itself: it is reported, and the others count. A last step of which lines are missing was cut off by a
crash before it was confirmed; it is removed. Lines may be added by hand: ``label`` with a name (or the number of a
node) and a class is enough.
"""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from filelock import FileLock, Timeout

from naq.errors import DataError, NaqError, OptionError, plain
from naq.files import escape_cell, open_in_place, unescape_cell
from naq.graph import Graph
from naq_studio.board import ACTIONS, ON_NODES, Board, Entry, one_line

COLUMNS = ("step", "rows", "action", "node", "name", "class", "value", "time")
MOST_PROBLEMS = 100
LARGEST = 1 << 28
"""Bytes of a journal at most."""
TITLES = (",".join(COLUMNS) + "\n").encode()
WHOLE_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
"""The last cell of a line that was written to its end."""


class Journal:
    """An open journal file, and the board that its lines lead to.

    Attributes:
        board: the present state.
        problems: sentences about lines that could not be used.
    """

    def __init__(self, path: Path, graph: Graph) -> None:
        self.path, self.graph, self.board = path, graph, Board()
        self.problems: list[str] = []
        self._separator, self._step = ",", 0
        self._lock = FileLock(path.with_name(f".{path.name}.lock"))
        try:
            self._lock.acquire(timeout=0)
        except Timeout:
            raise DataError(
                f"{path} is open in another 'naq studio'; use that one, or give another file with --labels."
            ) from None
        except (OSError, NotImplementedError) as error:
            raise cannot_write(path, error) from error
        try:
            self._file = open_in_place(path, os.O_RDWR | os.O_APPEND)
        except OSError as error:
            self._lock.release()
            raise cannot_write(path, error) from error
        try:
            self._read()
            self._finish_last_line()
        except OSError as error:
            self.close()
            raise cannot_write(path, error) from error
        except NaqError:
            self.close()
            raise

    def write(self, rows: Sequence[Entry]) -> None:
        """Do one step: checked, on the disk, then in :attr:`board`; an error leaves both as they were."""
        before = self.board.mark()
        self.board.step(rows)
        try:
            self._append(rows)
        except OSError as error:
            self.board.take_back(rows[0].action, before)
            advice = "nothing was changed. Free some space and try again."
            raise DataError(f"cannot write {self.path}: {error.strerror or error}; {advice}") from error

    def close(self) -> None:
        os.close(self._file)
        self._lock.release()

    def _append(self, rows: Sequence[Entry]) -> None:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        text = io.StringIO()
        writer = csv.writer(text, delimiter=self._separator, lineterminator="\n")
        names = self.graph.names
        for row in rows:
            name = "" if row.node is None or names is None else one_line(str(names[row.node]))
            node = "" if row.node is None else row.node
            cells = (self._step + 1, len(rows), row.action, node, name, row.label, row.value, now)
            writer.writerow(escape_cell(str(cell)) for cell in cells)
        content = memoryview(text.getvalue().encode("utf-8", "replace"))
        start = os.fstat(self._file).st_size
        try:
            while content:
                content = content[os.write(self._file, content) :]
            os.fsync(self._file)
        except OSError:
            os.ftruncate(self._file, start)
            raise
        self._step += 1

    def _read(self) -> None:
        content = self._content()
        if _is_new(content):
            return
        text = content.decode("utf-8-sig", "replace")
        lines = text.split("\n")
        self._separator = max(",;\t", key=lines[0].count)
        titles = tuple(title.strip().strip('"').casefold() for title in lines[0].split(self._separator))
        if titles != COLUMNS:
            raise DataError(
                f"{self.path}, line 1: expected the columns {','.join(COLUMNS)} of a journal of the studio, found "
                f"{lines[0][:80]!r}; give another file with --labels (a table of labels can be imported in the page)."
            )
        last = lines.pop() if len(lines) > 1 else ""  # empty where the last line has an end
        if last and self._is_whole(last):
            lines.append(last)
            last = ""
        cut = self._replay(lines[1:], torn=bool(last))
        if cut is not None or last:
            self._cut(len(lines) + 1 if cut is None else cut)

    def _replay(self, lines: list[str], torn: bool) -> int | None:
        """Do every step; the first line of the last one where it is not whole."""
        step: list[Entry] = []
        number, wanted, first = 0, 0, 0
        for line, text in enumerate(lines, start=2):
            if not text.strip():
                continue
            try:
                own, count, row = parse_line(self.graph, text.rstrip("\r"), self._separator)
            except OptionError as error:
                self._problem(line, str(error))
                continue
            if step and own != number:
                self._apply(step, first)
                step = []
            if not step:
                number, wanted, first = own, count, line
            step.append(row)
            if own == 0 or len(step) >= wanted:
                self._apply(step, first)
                step = []
            self._step = max(self._step, own)
        if step and (torn or len(lines) + 2 - first < wanted):
            return first
        if step:  # lines of it are there but were damaged by hand
            self._apply(step, first)
        return None

    def _is_whole(self, last: str) -> bool:
        """Whether a last line without an end was written to its end, or by hand; else a crash cut it off."""
        last = last.rstrip("\r")
        try:
            step, _, _ = parse_line(self.graph, last, self._separator)
        except OptionError:
            return False
        return step == 0 or WHOLE_TIME.fullmatch(last.rsplit(self._separator, 1)[-1].strip('"')) is not None

    def _apply(self, step: list[Entry], line: int) -> None:
        try:
            self.board.step(step)
        except OptionError as error:
            if len(step) > 1:  # keep the rows that can be used
                good = [row for row in step if self._usable(row)]
                self._problem(line, f"{error} ({len(step) - len(good)} of {len(step)} lines of this step left out)")
                if good:
                    self.board.step(good)
            else:
                self._problem(line, str(error))

    def _usable(self, row: Entry) -> bool:
        try:
            self.board.step([row])
        except OptionError:
            return False
        self.board.step([Entry("undo")])
        self.board.undone.clear()
        return True

    def _cut(self, first: int) -> None:
        """Remove the last step from the file, from its first line on."""
        self._problem(first, "the last action is incomplete and was removed: it was cut off before it was done")
        content, start = self._content(), 0
        for _ in range(first - 1):
            start = content.index(b"\n", start) + 1
        os.ftruncate(self._file, start)
        os.fsync(self._file)

    def _content(self) -> bytes:
        """All of the file that is open: another one may have its name by now."""
        size = os.fstat(self._file).st_size
        if size > LARGEST:
            raise DataError(
                f"{self.path} has {size:,} bytes; expected {LARGEST:,} at most: give another file with --labels."
            )
        os.lseek(self._file, 0, os.SEEK_SET)
        with os.fdopen(self._file, "rb", closefd=False) as stream:
            return stream.read()

    def _finish_last_line(self) -> None:
        """A new file gets its titles, a last line without an end gets one."""
        content = self._content()
        if _is_new(content):
            os.ftruncate(self._file, 0)
            os.write(self._file, TITLES)
            os.fsync(self._file)
            _sync_folder(self.path.parent)
        elif not content.endswith(b"\n"):
            os.write(self._file, b"\n")

    def _problem(self, line: int, what: str) -> None:
        if len(self.problems) < MOST_PROBLEMS:
            self.problems.append(plain(f"line {line}: {what.rstrip('.')}."))


def cannot_write(path: Path, error: Exception) -> DataError:
    why = getattr(error, "strerror", None) or error
    return DataError(f"cannot write {path}: {why}; say where to save with --labels PATH.")


def _is_new(content: bytes) -> bool:
    """Whether nothing was written yet, or a part of the titles when the studio was killed."""
    return not content.strip() or (len(content) < len(TITLES) and TITLES.startswith(content))


def _sync_folder(folder: Path) -> None:
    """The new file's name is on the disk too, where folders can be synced."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def parse_line(graph: Graph, text: str, separator: str) -> tuple[int, int, Entry]:
    """Step, number of rows of the step, and the row of one line; an ``OptionError`` if it is damaged."""
    try:
        cells = next(csv.reader([text], delimiter=separator, strict=True))
    except (csv.Error, StopIteration) as error:
        raise OptionError(f"not readable as CSV ({error}); check the quotes") from error
    if len(cells) != len(COLUMNS):
        raise OptionError(f"{len(cells)} cells; expected {len(COLUMNS)}")
    step, rows, action, node, name, label, value, _ = (unescape_cell(cell.strip()) for cell in cells)
    if action not in (*ACTIONS, "undo", "redo"):
        raise OptionError(f"the action is {action[:40]!r}; expected one of {', '.join((*ACTIONS, 'undo', 'redo'))}")
    found = _node(graph, node, name) if action in ON_NODES else None
    return _whole(step, "step", 0), _whole(rows, "rows", 1), Entry(action, found, label, value)


def _node(graph: Graph, number: str, name: str) -> int:
    """The node of a line: by its number if the name agrees, else by its name."""
    if number.isascii() and number.isdigit() and len(number) < 12:
        node, names = int(number), graph.names
        if node < graph.num_nodes and (not name or names is None or one_line(str(names[node])) == name):
            return node
    if name:
        from naq.classifier.labels import find_node  # heavy, and needed for lines by hand only

        return find_node(graph, name)
    raise OptionError(f"there is no node {number[:40]!r}")


def _whole(text: str, title: str, otherwise: int) -> int:
    if not text:
        return otherwise
    if not (text.isascii() and text.isdigit() and len(text) < 12):
        raise OptionError(f"{title} is {text[:20]!r}; expected a whole number or nothing")
    return int(text)
