"""The map in a notebook: traits and messages as anywidget has them, and its module on a page of its own in Chromium."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

anywidget = pytest.importorskip("anywidget")

import naq  # noqa: E402
from chromium_under_test import missing, until  # noqa: E402
from naq.errors import OptionError  # noqa: E402
from naq_studio.session import UNLABELLED  # noqa: E402
from naq_studio.widget import bundle  # noqa: E402
from planted_classes import few, planted  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning:ipywidgets")


@pytest.fixture(scope="module")
def classifier() -> naq.FewShotNodeClassifier:
    return naq.FewShotNodeClassifier().fit(planted(each=30))


def hear(widget, **state) -> None:
    """What a browser sends when someone has acted."""
    data = {"method": "update", "state": state, "buffer_paths": []}
    widget._handle_msg({"content": {"data": data}, "buffers": []})


def arrays(widget) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    n = len(widget.classifier.graph_.names)
    given, chosen = np.frombuffer(widget.arrays, "<i2", 2 * n).reshape(2, n)
    return given, chosen, np.frombuffer(widget.arrays, np.uint8, n, 4 * n)


def test_the_module_is_whole() -> None:
    text = bundle("widget")
    assert not re.search(r"^(import|export (?!default))|\bfetch\(", text, re.M) and text.count("export default") == 1
    for name in ("map", "gl", "pixels", "grid", "looks", "store"):
        assert text.count(f"const ${name} = (() =>") == 1 < text.count(f"${name}")


def test_the_selection_comes_back_as_ids_and_colours_follow_the_prediction(classifier) -> None:
    graph = classifier.graph_
    widget = naq.FewShotNodeClassifier.widget(classifier, layout="pca")
    assert np.abs(np.frombuffer(widget.places, "<f4")).max() < 1.2 and widget.names[3] == "node 3"
    given, chosen, sure = arrays(widget)
    assert (given == UNLABELLED).all() and (chosen == UNLABELLED).all() and not sure.any()
    labels = few(graph)
    for name in sorted(set(labels.values())):  # two labels, then the classifier has some
        hear(widget, selected=[node for node in labels if labels[node] == name])
        assert widget.selection == [f"node {node}" for node in widget.selected]
        widget.label(name)
    found = classifier.prediction()
    given, chosen, sure = arrays(widget)
    names = [one["name"] for one in widget.state["classes"]]
    assert {node: names[given[node]] for node in np.flatnonzero(given >= 0)} == labels
    assert [names[i] for i in chosen] == found.predicted.tolist()
    np.testing.assert_allclose(sure / 255, found.probabilities.max(axis=1), atol=0.01)
    before = widget.state["classes"]
    classifier.add_labels({"node 0": "a new class"})
    widget.update()
    assert widget.state["classes"][:3] == before and widget.state["classes"][3]["name"] == "a new class"
    with pytest.raises(OptionError, match="types"):
        widget.label(7)
    assert 7 not in widget._given.values()
    with pytest.raises(OptionError, match="layout"):
        classifier.widget(layout="umap")
    bare = naq.FewShotNodeClassifier(unknown=True).fit(naq.Graph([[0, 1, 2], [1, 2, 3]], nodes=5), {0: 1, 3: 2})
    other = bare.widget(layout="pca")
    hear(other, selected=[1, 2])
    assert other.selection == [1, 2] and other.names == []


def test_pacmap_is_the_map_of_the_studio(classifier, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("NAQ_CACHE", str(tmp_path))
    first = classifier.widget()
    kept = list(tmp_path.rglob("pacmap.npz"))
    monkeypatch.setattr("naq_studio.widget.pacmap_layout", None)
    assert len(kept) == 1 and classifier.widget().places == first.places


HOST = """<!doctype html><html><body style="margin:0"><style>%s</style><div id="el"></div><script type="module">
const bytes = (text) => new DataView(Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer);
const values = %s, heard = {};
for (const name of ["places", "arrays"]) values[name] = bytes(values[name]);
window.model = { get: (name) => values[name], set: (name, value) => { values[name] = value; }, saved: 0,
  save_changes() { this.saved++; }, on: (name, f) => { heard[name] = f; }, off: (name) => { delete heard[name]; },
  send(name, value) { values[name] = name === "arrays" ? bytes(value) : value; heard[`change:${name}`]?.(); } };
const own = await import(URL.createObjectURL(new Blob([%s], { type: "text/javascript" })));
window.ended = own.default.render({ model, el: document.getElementById("el") });
</script></body></html>"""


@pytest.mark.skipif(missing() is not None, reason=str(missing()))
def test_a_lasso_on_a_page_that_hosts_it(classifier, chromium, tmp_path) -> None:
    from base64 import b64encode

    widget = classifier.set_labels(few(classifier.graph_)).widget(layout="pca")
    values = {name: getattr(widget, name) for name in ("state", "names", "selected")}
    values |= {name: b64encode(getattr(widget, name)).decode() for name in ("places", "arrays")}
    page = HOST % (widget._css, json.dumps(values), json.dumps(bundle("widget")).replace("</", "<\\/"))
    context = chromium.new_context(viewport={"width": 800, "height": 600})
    tab, complaints = context.new_page(), []
    tab.on("pageerror", lambda error: complaints.append(str(error)))
    tab.on("request", lambda request: complaints.append(request.url) if request.url.startswith("http") else None)
    path = tmp_path / "host.html"
    path.write_text(page, encoding="utf-8")
    tab.goto(path.as_uri())
    until(tab, "document.querySelector('.naq-map')?.naq?.map.grid")
    tab.get_by_role("button", name="Lasso").click()
    box = tab.locator(".naq-overlay").bounding_box()
    corners = [(0.02, 0.02), (0.98, 0.02), (0.98, 0.98), (0.02, 0.98), (0.02, 0.04)]
    spots = [(box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in corners]
    tab.mouse.move(*spots[0])
    tab.mouse.down()
    for spot in spots[1:]:
        tab.mouse.move(*spot, steps=5)
    tab.mouse.up()
    until(tab, "model.saved === 1 && model.get('selected').length > 80")
    hear(widget, selected=tab.evaluate("model.get('selected')"))
    assert len(widget.selection) > 80 and widget.selection[0] == f"node {widget.selected[0]}"
    assert "selected" in tab.locator(".naq-tools span").inner_text()
    tab.evaluate("model.send('selected', [4, 5])")
    until(tab, "document.querySelector('.naq-tools span').textContent === '2 selected'")
    colours = """() => {
      const { map } = document.querySelector('.naq-map').naq, m = map.canvas, c = document.createElement('canvas');
      map.frame(performance.now()); c.width = m.width; c.height = m.height; c.getContext('2d').drawImage(m, 0, 0);
      const d = c.getContext('2d').getImageData(0, 0, m.width, m.height).data, near = (a, b) => Math.abs(a - b) < 40;
      let count = 0;
      for (let i = 0; i < d.length; i += 4) count += near(d[i], 0) && near(d[i + 1], 114) && near(d[i + 2], 178);
      return count; }"""
    before = tab.evaluate(colours)
    shown = {**widget.state, "classes": [{**one, "colour": 0} for one in widget.state["classes"]]}
    tab.evaluate(
        "([state, arrays]) => { model.send('state', state); model.send('arrays', arrays); }", [shown, values["arrays"]]
    )
    until(tab, "document.querySelector('.naq-map').naq.store.state.classes[1].colour === 0")
    assert tab.evaluate(colours) > 2 * before > 0
    tab.get_by_role("button", name="Select none").click()
    until(tab, "model.get('selected').length === 0")
    tab.screenshot(path=tmp_path / "widget.png")
    tab.evaluate("ended()")
    assert complaints == []
    context.close()
