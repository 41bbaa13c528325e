"""The studio's map in a notebook: :meth:`naq.FewShotNodeClassifier.widget`.

The widget's module is put together from those of the studio's page, so that there is one renderer; a store that asks a
server is answered by nobody, and what it would have asked for comes from the traits.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from naq.classifier.map import COLOURS, SHAPES, principal_places
from naq.classifier.prediction import Prediction
from naq.errors import MissingDependency, OptionError
from naq_studio.answers import OUTSIDE
from naq_studio.cache import graph_folder, pacmap_layout, read_layout, write_layout
from naq_studio.session import UNLABELLED

try:
    import anywidget
    import pacmap  # noqa: F401
    import traitlets
except ImportError as error:
    raise MissingDependency('the map in a notebook needs anywidget and pacmap: pip install "naq[notebook]".') from error

if TYPE_CHECKING:
    from naq.classifier import FewShotNodeClassifier

STATIC = Path(__file__).with_name("static")
IMPORT = re.compile(r'^import \{(.*?)\} from "\./(\w+)\.js";$', re.M)
NOBODY = "const $api = new Proxy({}, { get: () => () => new Promise(() => {}) });"
"""In place of ``api.js``: requests that are never answered."""


def bundle(entry: str) -> str:
    """A module of ``static`` and all that it imports as one module, each of the others in a function of its own."""
    texts, order = dict[str, str](), list[str]()

    def visit(name: str) -> None:
        if name != "api" and name not in texts:
            texts[name] = (STATIC / f"{name}.js").read_text(encoding="utf-8")
            for _, other in IMPORT.findall(texts[name]):
                visit(other)
            order.append(name)

    visit(entry)
    wanted: dict[str, dict[str, None]] = {name: {} for name in [*order, "api"]}
    for names, source in (found for text in texts.values() for found in IMPORT.findall(text)):
        wanted[source] |= {one.strip().partition(" as ")[0]: None for one in names.split(",")}
    parts = [NOBODY]
    for name in order:
        text = IMPORT.sub(lambda found: f"const {{{found[1].replace(' as ', ': ')}}} = ${found[2]};", texts[name])
        if name != entry:
            inside = re.sub(r"^export ", "", text, flags=re.M)
            text = f"const ${name} = (() => {{\n{inside}\nreturn {{ {', '.join(wanted[name])} }};\n}})();"
        parts.append(text)
    return "\n".join(parts)


class ClassifierMap(anywidget.AnyWidget):
    """The nodes in the colours of their classes; a lasso selects some.

    Attributes:
        selected: numbers of the nodes that are selected, ascending; may be set and observed.
    """

    _esm = bundle("widget")
    _css = (STATIC / "widget.css").read_text(encoding="utf-8")
    state = traitlets.Dict().tag(sync=True)
    names: Any = traitlets.List().tag(sync=True)
    places = traitlets.Bytes().tag(sync=True)
    arrays = traitlets.Bytes().tag(sync=True)
    selected = traitlets.List(traitlets.Int()).tag(sync=True)

    def __init__(self, classifier: FewShotNodeClassifier, layout: str = "pacmap") -> None:
        if layout not in ("pacmap", "pca"):
            raise OptionError(f"layout is {layout!r}; expected 'pacmap' or 'pca'.")
        graph = classifier._graph()
        self.classifier = classifier
        self._given: dict[int, Any] = {}  # labels, also of one class, of which a classifier has none
        self._numbers: dict[Any, int] = {}  # of classes, which keep their colours
        titles = [graph.title_of(node) for node in range(graph.num_nodes)] if graph.names is not None else []
        places = principal_places(classifier.vectors_) if layout == "pca" else _arranged(classifier)
        super().__init__(names=titles, places=places.tobytes())
        self.update()

    @property
    def selection(self) -> list[Any]:
        """The selected nodes by name, or by number if the graph has no names."""
        names = self.classifier.graph_.names
        return list(self.selected) if names is None else names[self.selected].tolist()

    def label(self, name: Any) -> None:
        """Give the selected nodes a class; once there are labels of two, they are those of the classifier."""
        given = self._given | dict.fromkeys(self.selected, name)
        if len(set(given.values())) > 1 or self.classifier._names is not None:
            self.classifier.set_labels(given)
        self._given = given
        self.update()

    def update(self) -> None:
        """Show what the classifier says now: call it after its labels were changed elsewhere."""
        clf = self.classifier
        found: Prediction | None = None
        if clf._labels is not None or clf._names is not None:
            found = clf.prediction()
            self._given = dict(zip(found.labels.nodes.tolist(), found.labels.values.tolist()))
        for name in [*([] if found is None else found.labels.classes.tolist()), *self._given.values()]:
            self._numbers.setdefault(name, len(self._numbers))
        n = clf.graph_.num_nodes
        given, chosen, sure = np.full(n, UNLABELLED, "<i2"), np.full(n, UNLABELLED, "<i2"), np.zeros(n, np.uint8)
        given[list(self._given)] = [self._numbers[name] for name in self._given.values()]
        if found is not None:
            numbers = np.array([self._numbers[name] for name in found.labels.classes.tolist()])
            chosen[:] = numbers[found.probabilities.argmax(axis=1)]
            sure = np.rint(255 * found.probabilities.max(axis=1)).astype(np.uint8)
            if found.outside is not None:
                chosen[found.outside] = OUTSIDE
        classes = [{"id": i, "name": str(name), "colour": i % len(COLOURS)} for name, i in self._numbers.items()]
        shown = {"graph": {"nodes": n}, "start": "", "classes": classes, "colours": COLOURS, "shapes": SHAPES}
        with self.hold_sync():
            self.state, self.arrays = shown, given.tobytes() + chosen.tobytes() + sure.tobytes()


def _arranged(classifier: FewShotNodeClassifier) -> np.ndarray:
    """The studio's map of the vectors, kept where the studio keeps it."""
    graph, seed = classifier.graph_, classifier.seed
    if classifier.options:
        return pacmap_layout(classifier.vectors_, seed)
    folder = graph_folder(graph, classifier.method, seed)
    places = read_layout(folder, "pacmap", graph.num_nodes)
    if places is None:
        places = pacmap_layout(classifier.vectors_, seed)
        write_layout(folder, "pacmap", places)
    return places
