"""References to Python names without an entry on the site: an existing name is shown as code, others are a warning."""

from __future__ import annotations

import builtins
from importlib import import_module

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

SHORT = {
    "np": "numpy",
    "sp": "scipy.sparse",
    "nx": "networkx",
    "pd": "pandas",
}
TYPING = (
    "collections.abc",
    "typing",
    "pathlib",
    "types",
    "torch_geometric.data",
    "naq.options",
    "naq.graph",
    "naq.text",
    "naq.tasks",
    "naq.run.config",
    "naq.errors",
    "naq.episodes.episodes",
)
"""Where names are looked for that signatures and docstrings write without their module."""


def exists(name: str) -> bool:
    """Whether a name of a module, or of something in it, can be imported."""
    name = name.partition("[")[0]  # of a type with arguments, its own
    head, _, rest = name.partition(".")
    parts = [*SHORT.get(head, head).split("."), *(rest.split(".") if rest else [])]
    for cut in range(len(parts), 0, -1):
        try:
            found = import_module(".".join(parts[:cut]))
        except ImportError:
            continue
        for part in parts[cut:]:
            if part in getattr(found, "__annotations__", {}):
                return True
            if not hasattr(found, part):
                return False
            found = getattr(found, part)
        return True
    return hasattr(builtins, name) or any(hasattr(import_module(module), name) for module in TYPING)


def _resolve(app: Sphinx, env: BuildEnvironment, node: pending_xref, content: nodes.Element) -> nodes.Element | None:
    if node.get("refdomain") != "py":
        return None
    target = node["reftarget"]
    module, owner = node.get("py:module"), node.get("py:class")
    inside = [
        ".".join(filter(None, parts))
        for parts in ((target,), (module, target), (owner, target), (module, owner, target))
    ]
    return content if any(map(exists, inside)) else None


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("missing-reference", _resolve)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
