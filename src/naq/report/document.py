"""The page as one HTML text."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files

from naq.experiments.views import BarView, LineView, ScatterView, TableView, TextView, View
from naq.report.first_screen import first_screen
from naq.report.formats import to_csv
from naq.report.html import counted, slug, tag, text
from naq.report.page import Page, Section
from naq.report.palette import variables
from naq.report.parts import command_box, listing
from naq.report.provenance import Cells, made_block
from naq.report.web_figure import scatter_figure, series_figure
from naq.report.web_table import table_html

_SAID = 6
"""Sentences of a verdict that are open from the start, unless few more follow."""


def document(page: Page) -> str:
    """Head, table of contents, first screen, sections, older results, and how the page was made."""
    older = [section for _, sections in page.older for section in sections]
    cells = Cells(cell for section in (*page.sections, *older) for cell in section.made)
    anchors = _anchors(page.sections)
    links = _links(page, anchors)
    main = tag(
        "main",
        first_screen(page),
        *(_section(section, anchor, cells) for section, anchor in zip(page.sections, anchors)),
        _older(page, cells),
        _footer(page),
        id="top",
    )
    source = files("naq.report")
    style = variables() + source.joinpath("style.css").read_text(encoding="utf-8")
    script = source.joinpath("page.js").read_text(encoding="utf-8")
    head = (
        '<meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f'<link rel="icon" href="data:,">{tag("title", text(page.title))}<style>{style}</style>'
    )
    body = (
        tag("a", "To the content", href="#top", class_="skip")
        + tag(
            "header", _phone_contents(links), '<button id="theme" type="button" hidden>Dark</button>', class_="topbar"
        )
        + tag("div", tag("nav", tag("ol", *links), class_="contents", aria_label="Contents"), main, class_="sheet")
        + cells.script()
        + f"<script>{script}</script>"
    )
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body>{body}</body></html>\n'


def _anchors(sections: Sequence[Section]) -> list[str]:
    """An anchor per section; the second of the same name gets a number."""
    taken: dict[str, int] = {}
    anchors = []
    for section in sections:
        name = slug(section.name)
        taken[name] = taken.get(name, 0) + 1
        anchors.append(name if taken[name] == 1 else f"{name}-{taken[name]}")
    return anchors


def _links(page: Page, anchors: Sequence[str]) -> list[str]:
    links = [tag("li", tag("a", "Summary", href="#summary"))]
    for section, anchor in zip(page.sections, anchors):
        lacking = [
            counted(len(lines), word, word)
            for lines, word in ((section.failed, "failed"), (section.missing, "missing"))
            if lines
        ]
        state = tag("small", text(", ".join(lacking))) if lacking else ""
        links.append(tag("li", tag("a", text(section.title), state, href=f"#{anchor}")))
    if page.older:
        links.append(tag("li", tag("a", "Older results", href="#older")))
    links.append(tag("li", tag("a", "About this page", href="#about")))
    return links


def _phone_contents(links: Sequence[str]) -> str:
    return tag(
        "details",
        tag("summary", "Contents"),
        tag("nav", tag("ol", *links), aria_label="Contents"),
        class_="phone-contents",
    )


def _section(section: Section, anchor: str, cells: Cells, *, older: bool = False) -> str:
    where = tag("p", text(section.where_in_paper), class_="where") if section.where_in_paper else ""
    question = tag("p", text(section.question), class_="question") if section.question else ""
    level = "h3" if older else "h2"
    parts = [
        tag("div", where, tag(level, text(section.title)), question, class_="head"),
        *_views(section.views, cells, older=older),
        tag("p", "Nothing of this has been run yet.", class_="empty") if not section.views else "",
        listing("failed", section.failed, "cell failed", "cells failed"),
        listing("missing", section.missing, "cell has not been run", "cells have not been run"),
        made_block(section.made, cells),
        command_box(section.command, "Run again") if section.command and not older else "",
    ]
    # On paper a long table starts on a page of its own, with its heading.
    long = any(isinstance(view, TableView) and len(view.rows) > 10 for view in section.views)
    return tag("section", *parts, id=anchor, class_="older-section" if older else "long" if long else None)


def _views(views: Sequence[View], cells: Cells, *, older: bool) -> list[str]:
    """The views in their order; plots that follow each other share a row where there is room."""
    out: list[str] = []
    row: list[str] = []
    heading = "h4" if older else "h3"
    for view in [*views, None]:
        if isinstance(view, LineView | BarView):
            row.append(series_figure(view, heading))
            continue
        if row:
            out.append(tag("div", *row, class_="figures"))
            row = []
        if isinstance(view, TableView):
            out.append(table_html(view, cells.place, to_csv(view), files=not older, heading=heading))
        elif isinstance(view, ScatterView):
            out.append(scatter_figure(view, heading))
        elif isinstance(view, TextView) and view.sentences:
            out.append(_sentences(view))
    return out


def _sentences(view: TextView) -> str:
    if view.kind == "verdict":
        said = [tag("p", text(sentence)) for sentence in view.sentences]
        rest = said[_SAID:] if len(said) > _SAID + 2 else []
        more = tag("details", tag("summary", f"{len(rest)} more findings"), *rest, class_="more") if rest else ""
        return tag("div", *said[: len(said) - len(rest)], more, class_="verdict")
    return tag("aside", tag("p", *(text(f"{s} ") for s in view.sentences)), class_="caveat", aria_label="Caveat")


def _older(page: Page, cells: Cells) -> str:
    if not page.older:
        return ""
    blocks = []
    for number, (version, sections) in enumerate(page.older, 1):
        count = counted(sum(len(section.made) for section in sections), "cell")
        shown = (_section(s, f"older-{number}-{i}", cells, older=True) for i, s in enumerate(sections, 1))
        blocks.append(
            tag(
                "details",
                tag("summary", "Code version ", tag("code", text(version)), f" · {count}"),
                *shown,
                class_="older",
            )
        )
    lead = "These were computed by other versions of the code. They are kept apart: no number above uses them."
    return tag(
        "section",
        tag("div", tag("h2", "Older results"), tag("p", lead, class_="question"), class_="head"),
        *blocks,
        id="older",
    )


def _footer(page: Page) -> str:
    facts = "".join(tag("dt", text(name)) + tag("dd", text(value)) for name, value in page.made.items())
    words = (
        "This page is one file: it loads nothing, and works without a network. A click on a number of a table shows the cells behind it; "
        "a click on the heading of a column sorts by it."
    )
    return tag("footer", tag("h2", "About this page"), tag("p", words), tag("dl", facts) if facts else "", id="about")
