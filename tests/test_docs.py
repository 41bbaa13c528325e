"""Links of README.md and of the pages in docs/ lead to files and headings that exist."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import naq
from methods_under_test import community_graph
from naq.cli.main import main

ROOT = Path(__file__).resolve().parents[1]
BY_HAND = tomllib.loads((ROOT / "tests" / "numbers_by_hand.toml").read_text(encoding="utf-8"))
"""By page: sections of settings, and by what they are the numbers elsewhere that no result holds."""
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


def written_by_hand(text: str, sections: list[str]) -> list[str]:
    """The numbers of a page that no tool writes, outside of code, links and these sections."""
    text = re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.S)
    for title in sections:
        assert f"\n## {title}\n" in text, f"there is no section {title}"
        text = re.sub(rf"^## {re.escape(title)}\n.*?(?=^## |\Z)", "", text, flags=re.S | re.M)
    text = re.sub(r"<!-- (\S+):begin -->.*?<!-- \1:end -->|<!-- =\S+ -->[^<]*<!-- / -->", "", text, flags=re.S)
    text = re.sub(r"\]\([^()\s]*\)|<!--.*?-->", "", text, flags=re.S)
    return re.findall(r"(?<![\w.])\d(?:[\d,]*\d)?(?:\.\d+)?(?:e-\d+)?(?![\w-])", text)


def test_numbers_that_are_written_by_hand_are_found():
    page = "## A\n5-way, 3.5 % of 1,000 `7`\n<!-- x:begin -->\n8\n<!-- x:end -->\n<!-- =y -->9<!-- / -->\n\n## B\n11\n"
    assert written_by_hand("\n" + page, ["B"]) == ["3.5", "1,000"]


@pytest.mark.parametrize("name", sorted(BY_HAND))
def test_every_number_is_written_from_results_or_is_a_setting(name):
    """A number that was measured stands between marks that tools/pages.py or a benchmark fills; others are listed."""
    allowed = BY_HAND[name]
    found = Counter(written_by_hand((ROOT / name).read_text(encoding="utf-8"), allowed.get("sections", [])))
    listed = Counter(str(number) for line in allowed["settings"].values() for number in line)
    assert found == listed, f"not listed: {found - listed}; listed and gone: {listed - found}"


def test_graphs_and_tasks_are_written_as_the_page_on_files_says(tmp_path, monkeypatch):
    """Its blocks of Python, on a graph of seven classes, and the command that they name."""
    monkeypatch.chdir(tmp_path)
    graph = community_graph()
    edges = np.stack(graph.adjacency.nonzero())
    names = {"edges": edges, "features": graph.features, "labels": graph.labels, "n": graph.num_nodes}
    names["weights"] = np.arange(1, edges.shape[1] + 1)
    blocks = re.findall(
        r"^```python\n(.*?)^```", (ROOT / "docs" / "formats.md").read_text(encoding="utf-8"), re.M | re.S
    )
    for block in blocks:
        exec(compile(block, "formats.md", "exec"), names)
    assert names["h"].directed and len(names["h"].blocks) == 2
    monkeypatch.setattr(
        "sys.argv", ["naq", "run", "mine.npz", "--way", "2", "--shot", "5", "-m", "smooth", "--out", "run"]
    )
    with pytest.raises(SystemExit) as ended:
        main()
    assert len(blocks) == 3 and not ended.value.code and (tmp_path / "run" / "metrics.json").exists()
    result = naq.run(names["g"], "smooth", way=2, split=names["split"], cache=None)
    assert result.config.way == 2 and len(result.per_task) == 500


def test_files_that_the_architecture_names_are_there():
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(naq(?:_\w+)?/[\w./]+)`", text))
    assert len(named) > 40
    assert not [name for name in sorted(named) if not (ROOT / "src" / name).exists()]


def test_the_picture_of_the_rooms_is_drawn_from_the_tree():
    done = subprocess.run([sys.executable, ROOT / "tools" / "rooms.py", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
