"""One line of the journal, and one line of a table of labels, as rows of the board."""

from __future__ import annotations

import csv

from naq.errors import OptionError
from naq.files import as_written, guarded
from naq.graph import Graph
from naq_studio.board import ACTIONS, ON_NODES, Board, Row

COLUMNS = ("step", "rows", "action", "node", "name", "class", "value", "time")
LONGEST_NAME = 200
"""Characters of a node's name that are written; it is for people, the number counts."""
MOST_PROBLEMS = 100


def written(graph: Graph, step: int, rows: int, row: Row, now: str) -> list[str]:
    """The cells of one line."""
    name = "" if row.node is None or graph.names is None else one_line(str(graph.names[row.node]))
    cells = [step, rows, row.action, "" if row.node is None else row.node, name, row.label, row.value, now]
    return [guarded(str(cell)) for cell in cells]


def parsed(graph: Graph, text: str, separator: str) -> tuple[int, int, Row]:
    """Step, number of rows of the step, and the row of one line; :class:`OptionError` says what is wrong with it."""
    try:
        cells = next(csv.reader([text], delimiter=separator, strict=True))
    except (csv.Error, StopIteration) as error:
        raise OptionError(f"not readable as CSV ({error}); check the quotes") from error
    if len(cells) != len(COLUMNS):
        raise OptionError(f"{len(cells)} cells; expected {len(COLUMNS)}")
    step, rows, action, node, name, label, value, _ = (as_written(cell.strip()) for cell in cells)
    if action not in (*ACTIONS, "undo", "redo"):
        raise OptionError(f"the action is {action[:40]!r}; expected one of {', '.join((*ACTIONS, 'undo', 'redo'))}")
    found = _node(graph, node, name) if action in ON_NODES else None
    return _whole(step, "step", 0), _whole(rows, "rows", 1), Row(action, found, label, value)


def _node(graph: Graph, number: str, name: str) -> int:
    """The node that a line means: its number, if the name agrees; else by its name."""
    if number.isascii() and number.isdigit() and len(number) < 12:
        node, names = int(number), graph.names
        if node < graph.num_nodes and (not name or names is None or one_line(str(names[node])) == name):
            return node
    if name:
        from naq.classifier.labels import find_node  # heavy, and needed for lines by hand only

        return find_node(graph, name)
    raise OptionError(f"there is no node {number[:40]!r}")


def one_line(name: str, longest: int = LONGEST_NAME) -> str:
    """A node's name as people can read it in one line."""
    start = name[: longest + 1].encode("utf-8", "replace").decode()
    plain = " ".join("".join(" " if ord(one) < 32 or 127 <= ord(one) < 160 else one for one in start).split())
    return plain if len(name) <= longest else plain[:longest] + "…"


def import_rows(graph: Graph, text: str) -> tuple[list[Row], list[str]]:
    """Labels from a table with the columns ``node`` and ``class``, or two columns of which one holds nodes, and a sentence for every line that cannot be used."""
    lines = text.lstrip("\ufeff").split("\n")
    separator = max(",;\t", key=lines[0].count)
    written = [title.strip().strip('"') for title in lines[0].rstrip("\r").split(separator)]
    titles = [title.casefold() for title in written]
    places = [
        [titles.index(title) for title in wanted if title in titles]
        for wanted in (("node", "name", "id"), ("class", "label", "category"))
    ]
    from naq.classifier.labels import find_node, node_column

    if not all(places):
        first = node_column(graph, written, _two_columns(lines[1:], separator))
        if first is None:
            raise OptionError("line 1 names no columns 'node' and 'class'; start the table with node,class.")
        places = [[first], [1 - first]]
    rows: list[Row] = []
    problems: list[str] = []
    scratch = Board()
    for line, content in enumerate(lines[1:], start=2):
        if not content.strip():
            continue
        try:
            cells = next(csv.reader([content.rstrip("\r")], delimiter=separator, strict=True))
            if len(cells) != len(titles):
                raise OptionError(f"{len(cells)} cells; the first line has {len(titles)}")
            node, label = (as_written(cells[place[0]].strip()) for place in places)
            if label:
                row = Row("label", find_node(graph, node), label)
                scratch.step([row])
                rows.append(row)
        except (csv.Error, OptionError) as error:
            problems.append(f"line {line}: {str(error).rstrip('.')}.")
    return rows, problems[:MOST_PROBLEMS]


def _two_columns(lines: list[str], separator: str) -> list[list[str]]:
    """The cells of lines that have two."""
    try:
        cells = [row for row in csv.reader([line.rstrip("\r") for line in lines], delimiter=separator) if len(row) == 2]
    except csv.Error:
        return []
    return [[row[place] for row in cells] for place in range(2)]


def _whole(text: str, title: str, otherwise: int) -> int:
    if not text:
        return otherwise
    if not (text.isascii() and text.isdigit() and len(text) < 12):
        raise OptionError(f"{title} is {text[:20]!r}; expected a whole number or nothing")
    return int(text)
