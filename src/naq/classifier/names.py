r"""Names of classes as labels before the first: nodes whose text is near a name stand in for labels of its class.

Vectors of the nodes' texts are smoothed over the graph (:mod:`naq.embedders.smoothing`) and centred; a name, or a
sentence that describes its class, comes from the same encoder and is centred by the mean of the texts. Every node
belongs to the name that is nearest by cosine, and of these the nearest ``FEWEST`` to ``MOST`` of a class stand in for
``WORTH`` labels of the class means, in addition to the true ones; on the vectors of texts the name itself counts as
much again. If a class has fewer than two labels they are its labels for every other expert.

What names are worth follows from the m labels, of which stand-ins know nothing: with :math:`p` what stand-ins alone say
and C classes,

.. math:: t = \frac{\prod_i p(y_i \mid i)}{\prod_i p(y_i \mid i) + C^{-m}}

is how likely names are to mean anything. Before the first label they are believed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from naq.classifier.experts import add_by_class
from naq.classifier.labels import CLASS_COLUMNS, LONGEST_CLASS
from naq.classifier.views import View, text_rows
from naq.device import require
from naq.errors import DataError, OptionError
from naq.graph import Graph

FEWEST, MOST, SHARE = 3, 30, 200  # stand-ins of a class: one in SHARE of what it would have were all equally large
WORTH = 3.0
BYTES = 80  # that a class of a node takes, in scores of all experts


@dataclass(frozen=True, eq=False)
class ClassNames:
    """What is known of classes by name.

    Attributes:
        classes: (classes,) sorted; ``vectors``: (classes, d) of their names, of length one.
        cosines: (n, classes) of each node's text with each name; NaN where a node has none.
    """

    classes: np.ndarray
    vectors: np.ndarray
    cosines: np.ndarray

    @classmethod
    def read(cls, graph: Graph, classes: Any) -> ClassNames:
        """For names, or ``{name: description}``: vectors by the model of the nodes' text."""
        names, texts = class_texts(classes)
        if graph.text is None:
            raise OptionError(
                f"graph {graph.name!r} has no text vectors, so names of classes say nothing about its nodes; give "
                "--text-encoder if it keeps a column of text (Graph.with_text_encoder in Python), or give labels."
            )
        return cls.of(graph, names, graph.text.class_vectors(texts))

    @classmethod
    def of(cls, graph: Graph, classes: np.ndarray, vectors: np.ndarray) -> ClassNames:
        """For the texts of a graph, from (classes, d) vectors of the names."""
        rows = text_rows(graph)
        what = f"naming {len(rows):,} nodes by {len(classes):,} classes"
        require(BYTES * len(rows) * len(classes), what, "name fewer classes")
        cosines = np.asarray(rows @ vectors.T, dtype=np.float32)
        cosines[~rows.any(axis=1)] = np.nan
        return cls(classes, vectors, cosines)

    def on(self, graph: Graph) -> ClassNames:
        """The same names for the texts of another graph."""
        return ClassNames.of(graph, self.classes, self.vectors)

    def stand_ins(self, classes: np.ndarray, labelled: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Nodes without a label, and the place of each one's class among ``classes``, which are sorted."""
        cosines = self.cosines.copy()
        cosines[labelled] = np.nan
        free = np.flatnonzero(~np.isnan(cosines[:, 0]))
        cosines, place = cosines[free], np.searchsorted(classes, self.classes)
        most = int(np.clip(len(free) / (SHARE * len(self.classes)), FEWEST, MOST))
        nearest, nodes, own = cosines.argmax(axis=1), [], []
        for column in range(len(self.classes)):
            mine = np.flatnonzero(nearest == column)
            mine = mine if len(mine) or not len(free) else cosines[:, column : column + 1].argmax(axis=0)
            nodes.append(free[mine[np.argsort(-cosines[mine, column], kind="stable")[:most]]])
            own.append(np.full(len(nodes[-1]), place[column]))
        return np.concatenate(nodes), np.concatenate(own)

    def anchors(self, view: View, nodes: np.ndarray, own: np.ndarray, classes: np.ndarray) -> np.ndarray:
        """(classes, d) what stand-ins, and on the view of texts the names themselves, add to class means; zero for a
        class without a name."""
        each = np.maximum(np.bincount(own, minlength=len(classes)), 1)[:, None]
        found = add_by_class(view.rows[nodes].astype(np.float64), own, len(classes)) / each
        if view.name == "texts":
            found[np.searchsorted(classes, self.classes)] += self.vectors
        return WORTH * found


def class_texts(classes: Any) -> tuple[np.ndarray, list[str]]:
    """(classes,) sorted names, and what to read for each: the name, with its description if there is one."""
    pairs = list(classes.items()) if isinstance(classes, Mapping) else [(name, "") for name in classes]
    wrong = [name for name, more in pairs if not (isinstance(name, str) and isinstance(more, str) and name.strip())]
    if wrong or isinstance(classes, str) or len(pairs) < 2:
        what = repr(wrong[0]) if wrong else repr(classes)[:80]
        raise OptionError(f"classes hold {what}; expected at least two names, or a mapping {{name: description}}.")
    pairs = [(name.strip(), more.strip()) for name, more in pairs]
    said = Counter(name.casefold() for name, _ in pairs)
    if len(said) < len(pairs):
        twice = next(name for name, _ in pairs if said[name.casefold()] > 1)
        raise OptionError(f"the class {twice!r} is named twice; name every class once.")
    texts = {name: f"{name}: {more}" if more else name for name, more in pairs}
    if all(not any(map(str.isalpha, text)) for text in texts.values()):
        raise OptionError(f"classes are named {', '.join(list(texts)[:3])}, which says nothing; name them in words.")
    return np.array(sorted(texts)), [texts[name] for name in sorted(texts)]


def read_classes(path: str | Path) -> dict[str, str]:
    """Names and descriptions of a text file: a class per line, its description behind a tab or a comma. A first
    line with names of columns is skipped."""
    found: dict[str, str] = {}
    seen: set[str] = set()
    try:
        lines = Path(path).read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read as text in UTF-8 with one class per line ({error}).") from error
    for number, line in enumerate(lines, 1):
        name, _, more = (part.strip() for part in line.partition("\t" if "\t" in line else ","))
        titles = name.lower() in CLASS_COLUMNS and more.lower() in ("description", "text", "about")
        if not line.strip() or (number == 1 and titles):
            continue
        if name.casefold() in seen:
            raise DataError(f"{path}, line {number}: the class {name!r} is there twice; name every class once.")
        if not name or len(name) > LONGEST_CLASS:
            raise DataError(f"{path}, line {number}: {line[:60]!r}; write one class per line: name, description.")
        found[name] = more
        seen.add(name.casefold())
    if len(found) < 2:
        raise DataError(f"{path} names {list(found) or 'no class'}; expected at least two classes, one per line.")
    return found


def trust(log_probabilities: np.ndarray, class_index: np.ndarray) -> float:
    """t from what stand-ins alone say of labels (labels, classes); 1 before the first."""
    if not len(class_index):
        return 1.0
    gain = log_probabilities[np.arange(len(class_index)), class_index] + np.log(log_probabilities.shape[1])
    return float(1 / (1 + np.exp(-np.clip(gain.sum(), -500, 500))))
