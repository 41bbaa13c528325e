"""GraphML, read as a stream: nodes and edges become tables, so that all options of tables hold."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

from naq.errors import DataError
from naq.io.tables.columns import Cells, Table
from naq.io.tables.text_file import LONGEST_ROW, opened

_PROLOG = 1 << 16
ID = "id"


def read_graphml(path: Path) -> tuple[Table, Table]:
    """Edges and nodes of the one graph of a file; attributes of nodes are columns under their ``attr.name``."""
    with opened(path) as stream:
        start = stream.read(_PROLOG)
    if re.search(rb"<!(DOCTYPE|ENTITY)", start):
        raise DataError(f"{path} declares a document type, which is never read; remove the <!DOCTYPE ...> line.")
    source: list[str] = []
    target: list[str] = []
    ids: list[str] = []
    cells: dict[str, dict[int, str]] = {}
    keys: dict[str, str] = {}
    defaults: dict[str, str] = {}
    graphs = 0
    root = None
    with opened(path) as stream:
        try:
            for event, element in ElementTree.iterparse(stream, events=("start", "end")):
                tag = element.tag.rpartition("}")[2]
                if event == "start":
                    if root is None:
                        root = element
                        if tag != "graphml":
                            raise DataError(f"{path} begins with <{tag}>; expected <graphml>.")
                    graphs += tag == "graph"
                    if graphs > 1 or tag in ("hyperedge", "port"):
                        what = "more than one graph" if graphs > 1 else f"a <{tag}>"
                        raise DataError(f"{path} holds {what}; expected one graph of nodes and edges.")
                    continue
                if tag == "key" and element.get("for") in ("node", "all"):
                    keys[element.get("id", "")] = element.get("attr.name", "")
                    for child in element:
                        defaults[element.get("id", "")] = child.text or ""
                elif tag == "node":
                    for child in element:
                        name = keys.get(child.get("key", ""), "")
                        if name:
                            cells.setdefault(name, {})[len(ids)] = _short_enough(child.text or "", name, path, len(ids))
                    ids.append(_needed(element, "id", path, f"node {len(ids) + 1}"))
                elif tag == "edge":
                    title = f"edge {len(source) + 1}"
                    source.append(_needed(element, "source", path, title))
                    target.append(_needed(element, "target", path, title))
                if tag in ("node", "edge"):
                    element.clear()
                    if root is not None:
                        for child in root:
                            if child.tag.endswith("graph"):
                                child.clear()
        except ElementTree.ParseError as error:
            line, column = error.position
            raise DataError(f"{path}, line {line}: not readable XML ({error.msg}, column {column}).") from error
        except DataError:
            raise
        except (LookupError, ValueError, RecursionError) as error:  # an encoding that there is not, brackets too deep
            raise DataError(f"{path} is not readable XML ({error}).") from error
    if not graphs:
        raise DataError(f"{path} holds no <graph>; expected one graph of nodes and edges.")
    columns = {ID: Cells.of(ids)}
    for key, name in keys.items():
        if name in cells or (key in defaults and name):
            found = cells.get(name, {})
            default = defaults.get(key, "")
            columns[name if name != ID else "id attribute"] = Cells.of(found.get(i, default) for i in range(len(ids)))
    edges = Table(
        str(path), {"source": Cells.of(source), "target": Cells.of(target)}, len(source), _places(path, "edge")
    )
    return edges, Table(str(path), dict(columns), len(ids), _places(path, "node"))


def _short_enough(text: str, name: str, path: Path, node: int) -> str:
    if len(text) > LONGEST_ROW:
        raise DataError(
            f"{path}, node {node + 1}: {name!r} has {len(text):,} characters; expected at most {LONGEST_ROW:,}: shorten it."
        )
    return text


def _needed(element: ElementTree.Element, name: str, path: Path, title: str) -> str:
    value = element.get(name)
    if value is None:
        raise DataError(f"{path}: {title} has no {name}; expected <{element.tag.rpartition('}')[2]} {name}=...>.")
    return value


class _places:
    def __init__(self, path: Path, what: str) -> None:
        self.path, self.what = path, what

    def __call__(self, rows: Sequence[int]) -> list[str]:
        return [f"{self.path.name}, {self.what} {row + 1}" for row in rows]
