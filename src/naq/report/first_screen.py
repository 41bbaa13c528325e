"""The first screen: the answers to what a reader requests first."""

from __future__ import annotations

from collections.abc import Sequence

from naq.report.html import counted, shorten, tag, text
from naq.report.page import Answer, DataFacts, Page, Summary
from naq.report.parts import command_box
from naq.report.web_table import plain_table


def first_screen(page: Page) -> str:
    """Title, notices, answers, the command, the data and how much is done."""
    summary = page.summary
    parts = [
        tag("div", tag("h1", text(page.title)), tag("p", text(page.subtitle), class_="subtitle"), class_="head"),
        _notices(page.notices),
        tag("div", *_answers(summary), class_="answers"),
        tag("p", text(summary.note), class_="note") if summary.note else "",
        command_box(summary.command, "How do I run it again?") if summary.command else "",
        _progress(summary),
        _data(summary.data),
    ]
    return tag("section", *parts, id="summary")


def _notices(notices: Sequence[str]) -> str:
    if not notices:
        return ""
    return tag("div", tag("ul", *(tag("li", text(notice)) for notice in notices)), class_="notices", role="note")


def _answers(summary: Summary) -> list[str]:
    asked = (
        ("Which method is best?", summary.best, "best"),
        ("By how much?", summary.margin, ""),
        ("Is it real?", summary.real, ""),
        ("What did it cost?", summary.cost, ""),
    )
    return [_answer(question, answer, kind) for question, answer, kind in asked]


def _answer(question: str, answer: Answer, kind: str) -> str:
    words = tag("p", text(answer.text)) if answer.text else ""
    return tag(
        "div",
        tag("h2", text(question)),
        tag("p", text(answer.short), class_="short"),
        words,
        class_=f"answer {kind}".strip(),
    )


def _progress(summary: Summary) -> str:
    total = summary.done + summary.failed + summary.missing
    if not total:
        return ""
    counts = [
        ("done", summary.done, "done"),
        ("failed", summary.failed, "failed"),
        ("missing", summary.missing, "not run"),
    ]
    bars = "".join(f'<span class="{kind}" style="flex-grow:{count}"></span>' for kind, count, _ in counts if count)
    words = " ".join(
        tag("span", f"{count:,} {word}", class_=f"count {kind}")
        for kind, count, word in counts
        if count or kind == "done"
    )
    meter = tag("div", bars, class_="meter", role="img", aria_label=f"{summary.done} of {total} cells done")
    return tag("div", tag("p", tag("b", counted(total, "cell")), " ", words), meter, class_="progress")


def _data(data: Sequence[DataFacts]) -> str:
    if not data:
        return ""
    columns = ["dataset", "split", "hash", "nodes", "edges", "features", "classes"]
    rows: list[list[str | tuple[str, str]]] = [
        [d.name, d.split, (shorten(d.hash, 17), d.hash), *(f"{n:,}" for n in (d.nodes, d.edges, d.features, d.classes))]
        for d in data
    ]
    table = plain_table(columns, rows, labels=3, kind="data")
    notes = "".join(tag("p", tag("b", text(d.name)), f": {text(d.note)}", class_="note") for d in data if d.note)
    return tag("div", tag("h2", "The data", class_="small"), table, notes, class_="data-block")
