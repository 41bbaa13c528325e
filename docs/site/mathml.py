"""Formulas as MathML, made when the site is built: browsers draw it themselves, so no script has to be loaded."""

from __future__ import annotations

import html
import re
from xml.etree import ElementTree

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.errors import SphinxError
from sphinx.writers.html5 import HTML5Translator

ACCENTS = ("ˆ", "~", "ˉ")
ENTITY = re.compile(r"&(?!(?:lt|gt|amp);)\w+;")
"""Names that HTML knows and XML does not."""
MATHML = "http://www.w3.org/1998/Math/MathML"
ElementTree.register_namespace("", MATHML)


def mathml(text: str, *, as_block: bool = False) -> str:
    """A formula of LaTeX as MathML; unlike docutils, the index of an accented letter goes to its side."""
    written = ENTITY.sub(lambda name: html.unescape(name[0]), tex2mathml(text, as_block=as_block))
    tree = ElementTree.fromstring(written)
    for node in tree.iter(f"{{{MATHML}}}munderover"):
        letter, index, accent = node
        if accent.text in ACCENTS:
            accented = ElementTree.Element(f"{{{MATHML}}}mover")
            accented.extend([letter, accent])
            node[:] = [accented, index]
            node.tag = f"{{{MATHML}}}msub"
    for node in tree.iter(f"{{{MATHML}}}mover"):
        node.attrib.pop("accent", None)  # without a font for mathematics, Chromium would draw it into the letter
    return ElementTree.tostring(tree, encoding="unicode")


def _formula(node: nodes.Element, *, as_block: bool) -> str:
    try:
        return mathml(node.astext(), as_block=as_block)
    except Exception as error:
        raise SphinxError(f"no MathML for {node.astext()!r}: {error}") from error


def _inline(writer: HTML5Translator, node: nodes.Element) -> None:
    writer.body.append(_formula(node, as_block=False))
    raise nodes.SkipNode


def _block(writer: HTML5Translator, node: nodes.Element) -> None:
    writer.body.append(f'<div class="formula">{_formula(node, as_block=True)}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_html_math_renderer("mathml", inline_renderers=(_inline, None), block_renderers=(_block, None))
    app.config.html_math_renderer = "mathml"
    return {"parallel_read_safe": True, "parallel_write_safe": True}
