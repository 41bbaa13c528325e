"""Builds the documentation site into build/docs: ``make docs``.

The pages of docs/, CONTRIBUTING.md, CHANGELOG.md, SECURITY.md, the pages that only the site has (docs/site), the
examples and a page per registered method are put together in build/docs-source; Sphinx reads them, with warnings as
errors. Afterwards every page is searched for things that a browser would load from a network. llms.txt and the pages
that it names, as they were written, stand next to those of the site.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from inspect import getsource
from pathlib import Path
from urllib.parse import urlparse

ROOT = Path(__file__).resolve().parents[1]
SITE = ROOT / "docs" / "site"
FENCE = re.compile(r"^```(\w+) (\S+)$", re.M)
LINK = re.compile(r"(?<=\]\()[^()\s]+\.md(?=\))")
LEXERS = {"csv": "text", "tsv": "text", "txt": "text", "graphml": "xml"}
MOVED = ("CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
"""Pages of the repository's first folder that the site has too, in small letters."""


def put_together(target: Path) -> None:
    """Everything Sphinx reads, in ``target``, which is made anew."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(SITE, target, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "examples" / "gallery", target / "examples")
    for path in sorted((ROOT / "docs").iterdir()):
        if path.suffix in (".md", ".png", ".svg"):
            shutil.copy(path, target)
        elif path.is_dir() and path.name != "site":
            shutil.copytree(path, target / path.name, ignore=shutil.ignore_patterns("tables"))
    for name in MOVED:
        shutil.copy(ROOT / name, target / name.lower())
    for page in target.glob("*.md"):
        page.write_text(for_sphinx(page.read_text(encoding="utf-8")), encoding="utf-8")
    for name, text in method_pages():
        (target / name).parent.mkdir(exist_ok=True)
        (target / name).write_text(text, encoding="utf-8")


def for_sphinx(text: str) -> str:
    """A page of GitHub as MyST reads it: links to pages that are moved, files in code blocks as captions."""
    text = text.replace("](docs/", "](")
    for name in MOVED:
        text = text.replace(f"](../{name}", f"]({name.lower()}")
    return FENCE.sub(lambda fence: f"```{{code-block}} {LEXERS[fence[1]]}\n:caption: {fence[2]}\n", text)


def method_pages() -> Iterator[tuple[str, str]]:
    """(file, text) of an index and of one page per learner, embedder and head, from their docstrings."""
    from naq.embedders import EMBEDDERS
    from naq.heads import HEADS
    from naq.learners import LEARNERS

    kinds = {
        "learners": ("Learners, trained on episodes", LEARNERS),
        "embedders": ("Methods without episodes", EMBEDDERS),
        "heads": ("Heads, which solve tasks from vectors", HEADS),
    }
    index = [
        "Every method", "============", "",
        "One page per learner, method and head, written from its docstring. Which one to use: :doc:`methods`.",
    ]  # fmt: skip
    for kind, (title, registry) in kinds.items():
        index += ["", title, "-" * len(title), "", ".. list-table::", "   :widths: 25 75", ""]
        files = {name: f"{kind}/{name.replace('/', '-')}" for name in sorted(registry)}
        for name, file in files.items():
            index += [f"   * - :doc:`{name} <{file}>`", f"     - {registry[name].summary}"]
            yield f"{file}.rst", _method_page(name, registry[name])
        index += ["", ".. toctree::", "   :hidden:", "", *(f"   {name} <{file}>" for name, file in files.items())]
    yield "every-method.rst", "\n".join(index) + "\n"


def option_comments(method: type) -> dict[str, str]:
    """The comments of the fields of ``Options``: above a field, or behind it."""
    found: dict[str, str] = {}
    for owner in reversed(method.__mro__):
        above: list[str] = []
        lines = getsource(owner.Options).splitlines() if "Options" in vars(owner) else []
        for line in map(str.strip, lines):
            if line.startswith("# "):
                above.append(line[2:])
            elif field := re.match(r"(\w+): .*?(?:  # (.*))?$", line):
                found[field[1]] = " ".join([*above, field[2] or ""]).strip()
                above = []
    return {name: re.sub(r"([*`|_])", r"\\\1", text) for name, text in found.items()}


def _method_page(name: str, method: type) -> str:
    """The docstring of the module, the options with their comments, the docstring of the class."""
    comments = option_comments(method)
    rows = "".join(
        f"\n   * - ``{key}``\n     - ``{value!r}``\n     - {comments.get(key, '')}"
        for key, value in method.defaults.items()  # type: ignore[attr-defined]
    )
    options = f"\nOptions\n-------\n\n.. list-table::\n   :widths: 20 15 65\n{rows}\n" if rows else ""
    return (
        f"{name}\n{'=' * len(name)}\n\n*{method.summary}*\n\n"  # type: ignore[attr-defined]
        f".. automodule:: {method.__module__}\n   :no-members:\n   :no-index:\n{options}\n"
        f"The class\n---------\n\n.. autoclass:: {method.__module__}.{method.__qualname__}\n   :show-inheritance:\n"
    )


def copy_texts(built: Path) -> None:
    """llms.txt for assistants, and the Markdown of every page that it names, without folders."""
    text = (ROOT / "llms.txt").read_text(encoding="utf-8")
    for page in LINK.findall(text):
        (built / Path(page).name.lower()).write_text((ROOT / page).read_text(encoding="utf-8"), encoding="utf-8")
    (built / "llms.txt").write_text(LINK.sub(lambda page: Path(page[0]).name.lower(), text), encoding="utf-8")


class _Loads(HTMLParser):
    """Addresses that a page loads by itself; links, which wait for a click, are none."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        names = {"link": "href", "script": "src", "img": "src", "iframe": "src", "source": "src", "object": "data"}
        if tag in names and not (tag == "link" and given.get("rel") in ("canonical", "author", "license")):
            self.found.append(given.get(names[tag]) or "")


def network_loads(folder: Path) -> list[str]:
    """``page: address`` of everything that pages and style sheets under ``folder`` would load from a network."""
    found = []
    for page in sorted(folder.rglob("*.html")):
        parser = _Loads()
        parser.feed(page.read_text(encoding="utf-8"))
        found += [f"{page.relative_to(folder)}: {url}" for url in parser.found if urlparse(url).netloc]
    for sheet in sorted(folder.rglob("*.css")):
        urls = re.findall(r"(?:url\(|@import )[\"']?((?:https?:)?//[^\"')]+)", sheet.read_text(encoding="utf-8"))
        found += [f"{sheet.relative_to(folder)}: {url}" for url in urls]
    return found


def main() -> int:
    argparse.ArgumentParser(description=__doc__).parse_args()
    from sphinx.cmd.build import main as sphinx

    source, built = ROOT / "build" / "docs-source", ROOT / "build" / "docs"
    put_together(source)
    shutil.rmtree(built, ignore_errors=True)
    strict = ["-q", "-n", "-W", "--keep-going", "-b", "html"]
    failed = sphinx([*strict, "-d", str(ROOT / "build" / "docs-doctrees"), str(source), str(built)])
    if failed:
        return failed
    copy_texts(built)
    loads = network_loads(built)
    if loads:
        print("loaded from a network:", *loads, sep="\n  ", file=sys.stderr)
        return 1
    size = sum(path.stat().st_size for path in built.rglob("*") if path.is_file())
    print(f"{len(list(built.rglob('*.html')))} pages, {size / 1e6:.1f} MB: {built / 'index.html'}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
