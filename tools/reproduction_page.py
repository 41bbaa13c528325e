"""The page in docs/reproduction, its picture and the README's sentences, from the packed results.

python tools/reproduction_page.py              from benchmarks/results/reproduction.zip
python tools/reproduction_page.py runs/dev     pack that folder of naq reproduce first
python tools/reproduction_page.py --picture    also take the README's picture with headless Chromium
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path

from check_page import chromium
from naq.files import write_json
from naq_paper.experiments.folder import pack_folder, unpack_folder
from naq_paper.experiments.views import TextView
from naq_paper.report.collect import page_of, tables_of
from naq_paper.report.export import write_tables
from naq_paper.report.page import Page
from naq_paper.report.render import write_page

ROOT = Path(__file__).resolve().parents[1]
PACK = ROOT / "benchmarks" / "results" / "reproduction.zip"
SUMMARY = ROOT / "benchmarks" / "results" / "reproduction.json"
PAGE = ROOT / "docs" / "reproduction" / "index.html"
PICTURE = ROOT / "docs" / "reproduction.png"
TITLE = "NaQ with the paper's settings, on debian and coauthor_cs"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--picture", action="store_true")
    given = parser.parse_args()
    if given.folder is not None:
        print(f"{pack_folder(given.folder, PACK)} results packed")
    with tempfile.TemporaryDirectory() as place:
        unpack_folder(PACK, place)
        page = page_of(place, title=TITLE, any_version=True)
    shutil.rmtree(PAGE.parent, ignore_errors=True)
    write_tables(tables_of(page), PAGE.parent)
    write_page(page, PAGE)
    write_json(SUMMARY, summary(page))
    if given.picture:
        take_picture()


def summary(page: Page) -> dict[str, object]:
    """The answers and the first sentences of every section."""
    said = {
        section.title: [
            view.sentences[0] for view in section.views if isinstance(view, TextView) and view.kind == "verdict"
        ][:3]
        for section in page.sections
    }
    answers = {name: vars(getattr(page.summary, name)) for name in ("best", "margin", "real", "cost")}
    advice = [vars(one) for one in page.summary.advice]
    return {"cells": page.summary.done, "advice": advice, "answers": answers, "sections": said}


def take_picture() -> None:
    chromium(PAGE.as_uri(), "--window-size=1440,1700", f"--screenshot={PICTURE}")


if __name__ == "__main__":
    main()
