"""Formulas as MathML, made when the site is built: browsers draw it themselves, so no script has to be loaded."""

from __future__ import annotations

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.errors import SphinxError
from sphinx.writers.html5 import HTML5Translator


def _formula(node: nodes.Element, *, as_block: bool) -> str:
    text = node.astext()
    try:
        return str(tex2mathml(text, as_block=as_block))
    except Exception as error:
        raise SphinxError(f"no MathML for {text!r}: {error}") from error


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
