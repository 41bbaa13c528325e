"""Columns of nodes, edges and names on the map, pictures: against plain forms, and what people's tables hold."""

from __future__ import annotations

import json
import math
import os

import numpy as np
import pytest

from naq import Graph
from naq.errors import DataError, OptionError
from naq.text import NodeTable
from naq_studio.columns import Columns
from naq_studio.images import Images
from naq_studio.routes import edges_in_view, name_regions
from studio_under_test import studio, text_graph, word_graph

PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)


def graph_with(**columns: list[str]) -> Graph:
    n = len(next(iter(columns.values())))
    return Graph(np.array([[0, 1], [1, 2]]), nodes=n, name="g").with_table(NodeTable.of(columns))


@pytest.mark.parametrize(
    "cells, kind, values",
    [
        (["1", "", "-2.5", "nan", "1e3"], "number", [1, math.nan, -2.5, math.nan, 1000]),
        (["1,5", "2,25", "", "3", "1.000,5"], "number", [1.5, 2.25, math.nan, 3, 1000.5]),
        (["b", "a", "", "a", "B", "b", "a"], "category", [2, 0, math.nan, 0, 1, 2, 0]),
        (["x y", "inf", "z", "", "3"], "text", [2, 1, 3, math.nan, 0]),
        (["2021-03-04", "", "1970-01-02 12:00"], "date", [18690, math.nan, 1.5]),
        (["04.03.2021", "5.3.2021", "31.12.1969"], "date", [18690, 18691, -1]),
        (["2021-03-04", "04.03.2021", "soon"], "text", [1, 0, 2]),
        (["", "", ""], "text", [math.nan] * 3),
        (["M" * 1_000_000, "a", "b"], "text", [2, 0, 1]),
        (["a" * 999 + "1", "a" * 999 + "2", ""], "text", [0, 0, math.nan]),
    ],
)
def test_kinds_of_columns(cells, kind, values):
    columns = Columns(graph_with(one=cells))
    found = columns.read(0)
    assert found.kind == kind
    np.testing.assert_array_equal(found.values, values)
    short = [cell[:160] for cell in cells]
    for value, cell, count in found.common:  # the same cells, counted plainly
        assert short.count(cell) == count and all(values[i] == value for i, one in enumerate(short) if one == cell)
    json.dumps(found.facts(), allow_nan=False)


def test_any_name_is_a_column_and_every_cell_is_found(tmp_path):
    names = ["__proto__", "--seed", "constructor", "edges", "", "x" * 500, "<b>"]
    table = NodeTable.of({name: [f"{name} Ä{i}"[:9] + "=1" for i in range(3)] for name in names})
    twice = NodeTable(np.array(["a"] * len(names)), table.uses, table.content, table.ends)
    graph = Graph(np.array([[0, 1], [1, 2]]), labels=[1, -1, 0], class_names=["p", "q"], nodes=3, name="g")
    assert len(set(Columns(graph.with_table(twice)).titles)) == len(names) + 2
    with studio(graph.with_table(table), tmp_path / "j.csv") as running:
        titles = running.get("/api/columns")["titles"]
        assert len(set(titles)) == len(names) + 2 and titles[0] == "__proto__" and titles[-1] == "class in the file"
        status, answer = running.request("POST", "/api/cells", body=b'{"columns": [0, 7, 8], "nodes": [2, 1]}')
        assert status == 200 and json.loads(answer.split(b"\r\n\r\n", 1)[1])[1] == ["__proto__=1", "2", ""]
        assert running.get("/api/holding/2?q=CON") == [0, 1, 2] and running.get("/api/holding/4?q=%C3%A41") == [1]
        assert running.get("/api/column/7")["kind"] == "number"
        values = running.request("GET", "/api/values/7")[1].split(b"\r\n\r\n", 1)[1]
        assert np.frombuffer(values, "<f8").tolist() == graph.degrees.tolist()


def test_five_thousand_columns(tmp_path):
    wide = graph_with(**{f"c{i}": ["1", "2", "3"] for i in range(5_000)})
    with studio(wide, tmp_path / "j.csv") as running:
        assert (
            len(running.get("/api/columns")["titles"]) == 5_001 and running.get("/api/column/4999")["kind"] == "number"
        )
        asked = json.dumps({"columns": [*range(5_000)], "nodes": [0, 1, 2]}).encode()
        assert running.request("POST", "/api/cells", body=asked)[0] == 409


@pytest.mark.parametrize("box", [(-2, -2, 2, 2), (-0.5, -0.2, 0.3, 0.9), (0.9, 0.9, 0.8, 0.8), (math.nan,) * 4])
def test_edges_in_view_are_those_with_an_end_there(box):
    graph, places = word_graph(200), np.random.default_rng(0).uniform(-1, 1, (200, 2)).astype(np.float32)
    inside = {i for i, (x, y) in enumerate(places) if box[0] <= x <= box[2] and box[1] <= y <= box[3]}
    wanted = {(a, b) for a, b in zip(*graph.adjacency.nonzero()) if a < b and {a, b} & inside}
    total, ends = edges_in_view(graph, places, box)
    assert total == len(ends) == len(wanted) and {(min(e), max(e)) for e in ends.tolist()} == wanted
    if wanted:
        total, some = edges_in_view(graph, places, box, most=50)
        thinned = {tuple(sorted(e)) for e in some.tolist()}
        assert total == len(wanted) and len(thinned) == len(some) == 50 and thinned < wanted


def test_regions_are_named_by_words_that_only_their_nodes_have():
    graph, group = word_graph(600), np.arange(600) % 3
    places = (np.array([[-1, 0], [1, 0], [0, 1]])[group] + np.random.default_rng(0).normal(0, 0.1, (600, 2))).astype(
        "f4"
    )
    found = name_regions(graph, places)
    assert len(found) > 8 and [size for _, _, size, _ in found] == sorted((s for _, _, s, _ in found), reverse=True)
    for x, y, _, name in found:
        kind = ("fruit", "rock", "water")[int(np.argmin(np.hypot(*(np.array([[-1, 0], [1, 0], [0, 1]]) - (x, y)).T)))]
        assert all(word.startswith(kind) for word in name.split(", "))
    assert name_regions(graph.with_features(None), places) == []


def test_pictures_come_from_the_folder_of_the_graph_only(tmp_path):
    folder = tmp_path / "data"
    (folder / "sub").mkdir(parents=True)
    good = {"a.png": PNG, "sub/b.jpg": b"\xff\xd8\xff\xe0", "c.webp": b"RIFF1234WEBPVP8 "}
    for name, content in good.items() | {"page.html": b"<script>", "x.svg": b"<svg/>", "none.png": b""}.items():
        (folder / name).write_bytes(content)
    (folder / "huge.png").write_bytes(PNG + bytes(9 << 20))
    (tmp_path / "out.png").write_bytes(PNG)
    (folder / "link.png").symlink_to(folder / "a.png")
    (folder / "away").symlink_to(tmp_path)
    os.mkfifo(folder / "pipe.png")
    bad = ["page.html", "x.svg", "none.png", "huge.png", "link.png", "away/out.png", "pipe.png", "sub", "../out.png",
           "sub/../../out.png", str(tmp_path / "out.png"), "http://127.0.0.1/a.png", "file:///etc/passwd", "a.png\0",
           "..\\out.png", "//a.png", "./a.png", "missing.png", "x" * 600, ""]  # fmt: skip
    table = graph_with(picture=[*good, *bad]).with_source(str(folder / "g.npz"))
    images = Images(table, "picture")
    for node, content in enumerate(good.values()):
        assert images.read(node) == (content, f"image/{('png', 'jpeg', 'webp')[node]}")
    for node in range(len(good), len(good) + len(bad)):
        with pytest.raises(DataError):
            images.read(node)
    for graph, column in ((table, "pictur"), (table.with_source("debian"), "picture"), (word_graph(9), "picture")):
        with pytest.raises(OptionError, match="images"):
            Images(graph, column)
    with studio(table, tmp_path / "j.csv") as running:
        assert running.request("GET", "/api/image/0")[0] == 404 and not running.get("/api/node/0")["image"]
        running.session.images = images
        status, answer = running.request("GET", "/api/image/0")
        assert status == 200 and b"image/png" in answer.split(b"\r\n\r\n")[0] and answer.endswith(PNG)
        assert running.request("GET", "/api/image/8")[0] == 409 and running.get("/api/node/0")["image"]
        assert running.request("GET", "/api/image/0", {"X-Naq-Key": None})[0] == 403


def test_the_text_of_a_node_is_cut(tmp_path):
    with studio(text_graph(30), tmp_path / "j.csv") as running:
        assert running.get("/api/text/4") == running.session.graph.text_of(4)[:200] != ""
