"""Pages of a report for the tests: small, with every kind of view, and with names that try to break out."""

from __future__ import annotations

from html.parser import HTMLParser

from naq_paper.cells.cell import Cell, Identity
from naq_paper.cells.records import Record
from naq_paper.experiments.views import (
    BarView,
    LineView,
    Missing,
    Number,
    Panel,
    ScatterView,
    Series,
    TableView,
    TextView,
    View,
)
from naq_paper.report.page import KeyFigure, Report, Section, Summary

NASTY = """</script><img src=x onerror=alert(1)> & "quoted" 'single' <b>"""
"""A name that ends elements and attributes wherever it is not escaped."""

EMPTY = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}


class Structure(HTMLParser):
    """Elements of a page; fails on one that is closed out of turn. ``path`` is an SVG element that closes itself."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"an attribute twice in {tag}: {names}"
        self.found.append((tag, dict(attrs)))
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-3:]}"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    def count(self, tag: str, kind: str = "") -> int:
        return sum(name == tag and (not kind or kind in (a.get("class") or "").split()) for name, a in self.found)


def line(name: str, x: list, y: list, *, paper: bool = False, interval: float | None = 1.0) -> Series:
    if interval is None or paper:
        return Series(name, x, y, paper=paper)
    low = [None if v is None else v - interval for v in y]
    high = [None if v is None else v + interval for v in y]
    return Series(name, x, y, low, high)


def made(number: int = 0, *, data: str = "da1a", versions: str = "", machine: str = "", **config: object) -> Record:
    """The record of a cell of debian."""
    cell = Cell("train", {"dataset": "debian", "way": 5, "number": number, "seed": 0, **config})
    about = {"processor": machine, "cores": 2, "versions": {"torch": machine or "2"}}
    return Record(cell, Identity(data, versions), {"number": number}, None, 61.0, about, "2026")


A, B = made(), made(1, perturbation={"name": "noise"})


def table(name: str = "main") -> TableView:
    """Two families, ranks, marks, a missing number and the paper's."""
    return TableView(
        name,
        "Accuracy",
        ["family", "method", "1-shot", "5-shot"],
        [
            ["supervised", "MAML", Number(51.2, 0.9, 0.3, 3, 50.1, 0.8, mark="▼"), Missing("not run", paper="OOM")],
            ["supervised", "TENT", Number(60.0, 0.9, rank=2, mark="≈", keys=(A.key,)), Number(70.0, rank=2)],
            [
                "NaQ",
                "NaQ-Feat",
                Number(61.5, 0.8, rank=1, mark="▲", keys=(A.key, B.key, "gone")),
                Number(75.25, 0.7, rank=1),
            ],
        ],
        labels=2,
        groups=[("", 2), ("5-way", 2)],
        note="Means.",
    )


def every_view() -> list[View]:
    levels = ["100/100", "50/50", "20/20"]
    return [
        TextView(["NaQ-Feat is best.", "By 1.5 points."]),
        table(),
        LineView(
            "levels", "By level", "labels", "accuracy, %", [line("TENT", levels, [72.0, 70.0, None])], {"smooth": 64.0}
        ),
        LineView("numbers", "By number", "Q", "accuracy, %", [line("NaQ", [1, 10, 100], [60, 64, 61])], log_x=True),
        BarView("bars", "By shape", "accuracy, %", [line("TENT", levels, [72.0, 70.0, 60.0])]),
        ScatterView("plane", "In the plane", [Panel("NaQ", [0, 1, 2], [0, 2, 1], [0, 1, 1], "purity 1")], ["x", "y"]),
        TextView(["One seed."], "caveat"),
    ]


def page(views: list[View] | None = None, **changes: object) -> Report:
    """A page of one section; ``changes`` replace fields of the page."""
    section = Section(
        "main table", "All methods", "Which is best?", "Table 1", every_view() if views is None else views, [A, B],
        ["debian COSMIC"], ["debian VNT: out of memory"], "naq reproduce main",
    )  # fmt: skip
    answers = [KeyFigure(words, f"{words}, in a sentence.") for words in ("NaQ-Feat", "1.5 points", "yes", "2 min")]
    data = {"debian": {"nodes": 34_169, "edges": 1000, "features": 512, "classes": 55, "hash": "da1a"}}
    summary = Summary(*answers, "naq reproduce all", data, 2, 1, 1)
    fields: dict = {"title": "NaQ", "subtitle": "on debian", "summary": summary, "sections": [section], **changes}
    return Report(**fields)
