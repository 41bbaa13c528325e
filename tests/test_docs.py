"""Links of README.md and of the pages in docs/ lead to files and headings that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])


def targets(text: str) -> list[str]:
    """Where Markdown links and pictures lead, outside of code."""
    text = re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.S)
    return re.findall(r"\]\(([^()\s]+)\)", text)


def anchors(text: str) -> set[str]:
    """Anchors of the headings, made as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", text, flags=re.S), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def test_links_and_headings_are_found():
    assert targets("[a](b.md#c) ![d](e.png) `[f](g)`\n```\n[h](i)\n```\n") == ["b.md#c", "e.png"]
    assert anchors("# One, two?\ntext\n## `naq run`: it\n```\n# no\n```\n") == {"one-two", "naq-run-it"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_resolve(page):
    for target in targets(page.read_text(encoding="utf-8")):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        file = page.parent / name if name else page
        assert file.exists(), f"{page.name} links to {target}"
        if anchor and file.suffix == ".md":
            assert anchor in anchors(file.read_text(encoding="utf-8")), f"{page.name} links to {target}"
