"""A table in a page of the docs, between two marks: written from results, never by hand."""

from __future__ import annotations

from pathlib import Path


def write_between(page: Path, begin: str, end: str, text: str) -> None:
    """Put ``text`` between the marks, each of which the page has once; the rest stays as it is."""
    content = page.read_text(encoding="utf-8")
    if content.count(begin) != 1 or content.count(end) != 1:
        raise SystemExit(f"{page} needs {begin} and {end} once each.")
    before, rest = content.split(begin)
    page.write_text(f"{before}{begin}\n{text}\n{end}{rest.split(end)[1]}", encoding="utf-8")
