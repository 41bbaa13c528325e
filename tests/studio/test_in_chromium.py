"""The studio as people use it: headless Chromium on a small graph."""

from __future__ import annotations

import base64
import csv
import http.server
import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from chromium_under_test import READY, SETTLED, STILL, WITHOUT_GL, Page, browser, missing, until
from naq.io.npz import save_graph
from naq.text import NodeTable
from naq_studio.board import Entry
from naq_studio.images import Images
from naq_studio.server import entrance
from studio_under_test import studio, text_graph, word_graph

pytestmark = pytest.mark.skipif(missing() is not None, reason=str(missing()))


PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@pytest.fixture
def opened(chromium, cache, in_process, tmp_path):
    """A studio with two classes of two labels, and a page of it."""
    with studio(word_graph(), tmp_path / "j.csv", learn=True) as running:
        context = chromium.new_context(viewport={"width": 1200, "height": 800}, accept_downloads=True)
        page = Page(context, running.address)
        for node, group in (("apple 0", "fruit"), ("stone 1", "rock"), ("apple 3", "fruit"), ("stone 4", "rock")):
            page.find(node)
            page.name(group)
            page.see("naq.store.busy === 0")
        page.see(f"naq.store.state.classes.length === 2 && naq.store.state.labels === 4 && {SETTLED}")
        yield running, context, page
        assert page.complaints == []
        context.close()


COUNTED = """() => { const m = naq.map, g = m.points.gl, w = m.canvas.width, h = m.canvas.height;
  m.frame(performance.now());
  const data = g ? new Uint8Array(4 * w * h) : m.points.context.getImageData(0, 0, w, h).data;
  if (g) g.readPixels(0, 0, w, h, g.RGBA, g.UNSIGNED_BYTE, data);
  const found = { blue: 0, orange: 0, painted: 0 };
  const near = (i, own) => own.every((one, k) => Math.abs(data[i + k] - one) < 3);
  for (let i = 0; i < data.length; i += 4) {
    found.blue += near(i, [0, 114, 178]); found.orange += near(i, [230, 159, 0]);
    found.painted += !near(i, [255, 255, 255]); }
  return found; }"""
"""How many pixels of the map have the colours of the first two classes, and any."""


def test_label_predict_undo_queue_search(opened):
    running, _, page = opened
    # predictions colour the map: both colours, in full for labels, paler for others
    page.tab.keyboard.press("Escape")
    page.tab.keyboard.press("f")
    page.see(STILL)
    shown = page.tab.evaluate(COUNTED)
    assert shown["blue"] > 20 and shown["orange"] > 20
    right = page.value("naq.store.names.filter((_, i) => i % 3 < 2 && naq.store.predicted[i] === i % 3).length")
    assert right > 60  # of 80
    # number keys label what is suggested, and the queue advances
    first, head = page.value("[naq.store.current, naq.store.queue[0]]")
    assert first == head
    page.tab.keyboard.press("1")
    page.see(f"naq.store.current !== {first} && naq.store.given[{first}] === 0")
    page.see(f"{SETTLED} && naq.store.state.labels === 5")
    # skip, and "belongs to none"
    second = page.value("naq.store.current")
    page.tab.keyboard.press("s")
    page.see(f"naq.store.current !== {second} && naq.store.state.skipped === 1 && naq.store.current >= 0")
    third = page.value("naq.store.current")
    page.tab.keyboard.press("x")
    page.see(f"naq.store.current !== {third} && naq.store.state.none === 1")
    assert running.session.journal.board.labels[third] == -1
    # undo all three, redo one
    for _ in range(3):
        page.tab.keyboard.press("Control+z")
    page.see(f"{SETTLED} && naq.store.state.labels === 4 && naq.store.state.none + naq.store.state.skipped === 0")
    page.see(f"naq.store.current === {first}")  # it is suggested again
    page.tab.keyboard.press("Control+y")
    page.see(f"{SETTLED} && naq.store.given[{first}] === 0 && naq.store.current !== {first}")
    # a word selects all nodes that hold it
    page.tab.fill("#search", "water3")
    page.see("document.querySelector('#hits [role=option] .word')")
    page.tab.press("#search", "Enter")
    page.see("naq.store.selection.size > 3")
    holds = set(page.value("[...naq.store.selection]"))
    assert holds == set((running.session.graph.features[:, [23]] > 0).nonzero()[0].tolist())
    # the curve of expected accuracy has points, and the numbers are shown
    page.see("document.querySelector('.curve') && document.querySelector('.expected').textContent.includes('%')")


def test_classes_and_lasso(opened):
    running, _, page = opened
    tab, board = page.tab, running.session.journal.board
    # a lasso around everything, then subtract the left half, then label the rest
    tab.keyboard.press("f")
    page.see(STILL)
    tab.keyboard.press("l")
    box = tab.locator("[data-map]").bounding_box()

    def draw(x0, y0, x1, y1, *held):
        for key in held:
            tab.keyboard.down(key)
        corners = [(x0, y0), (x1, y0), (x1, y1), (x0, y1), (x0, y0 + 0.02)]
        at = [(box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in corners]
        tab.mouse.move(*at[0])
        tab.mouse.down()
        for place in at[1:]:
            tab.mouse.move(*place, steps=6)
        tab.mouse.up()
        for key in held:
            tab.keyboard.up(key)

    draw(0.01, 0.09, 0.99, 0.99)
    page.see("naq.store.selection.size > 100")
    whole = page.value("naq.store.selection.size")
    draw(0.01, 0.09, 0.5, 0.99, "Alt")
    page.see(f"naq.store.selection.size < {whole}")
    rest = page.value("[...naq.store.selection]")
    assert all(page.value(f"naq.map.placeOf({node})[0]") > box["width"] * 0.49 for node in rest[:20])
    draw(0.01, 0.09, 0.5, 0.99, "Shift")
    page.see(f"naq.store.selection.size === {whole}")
    page.name("everything")
    page.see("naq.store.busy === 0 && naq.store.state.classes.length === 3")
    assert sum(number == 2 for number in board.labels.values()) == whole
    tab.keyboard.press("Control+z")
    page.see(f"{SETTLED} && naq.store.state.labels === 4 && naq.store.state.classes.length === 2")
    # a mistake is told, and stays in sight
    tab.click("[aria-label='Change fruit']")
    tab.fill(".change input[type=text]", "rock")
    tab.click(".change button:text('Rename')")
    page.see("document.querySelector('.banner')?.textContent.includes('there is a class')")
    tab.wait_for_timeout(300)
    tab.click(".banner button")
    page.see("!document.querySelector('.banner')")
    page.complaints.clear()  # the browser notes the refusal
    # rename, recolour, make, merge, delete
    tab.click("[aria-label='Change fruit']")
    tab.fill(".change input[type=text]", "<img src=x onerror=alert(1)> 🍎")
    tab.click(".change button:text('Rename')")
    page.see(f"{SETTLED} && naq.store.state.classes[0].name.startsWith('<img')")
    assert "<img src=x onerror=alert(1)> 🍎" in tab.inner_text(".classes")
    tab.click(".classes tbody tr:first-child .small")
    tab.click("[aria-label='Colour 8']")
    page.see("naq.store.state.classes[0].colour === 7")
    tab.select_option("[aria-label='Merge into']", label="rock")
    page.see("naq.store.state.classes.length === 1 && naq.store.state.classes[0].labels === 4")
    tab.click("[aria-label='Change rock']")
    tab.click(".change button:text('Delete')")
    tab.click(".change .danger")
    page.see("naq.store.state.classes.length === 0 && naq.store.state.labels === 0")
    for _ in range(2):
        tab.keyboard.press("Control+z")
    page.see(f"{SETTLED} && naq.store.state.classes.length === 2 && naq.store.state.labels === 4")
    # bulk accept above a confidence
    tab.click("summary:text('Accept sure')")
    moved = "r.dispatchEvent(new Event('input', { bubbles: true }))"
    tab.evaluate(f"() => {{ const r = document.querySelector('.accept input'); r.value = 80; {moved}; }}")
    tab.click(".accept button")
    page.see("document.querySelectorAll('ol.check li').length === 10")
    for place in range(10):
        assert tab.is_disabled("dialog .main")
        tab.click(f"ol.check li:nth-child({place + 1}) button:text('{'Right' if place else 'Wrong'}')")
    tab.click("dialog .main")
    page.see(f"{SETTLED} && naq.store.state.labels > 4")
    assert "9 of 10" in tab.inner_text("dialog")
    tab.click("dialog .main")
    tab.keyboard.press("Control+z")
    page.see(f"{SETTLED} && naq.store.state.labels === 4")


def test_names_of_classes_colour_the_map(chromium, cache, in_process, tmp_path):
    with studio(text_graph(), tmp_path / "j.csv", learn=True) as running:
        context = chromium.new_context(viewport={"width": 1200, "height": 800})
        page = Page(context, running.address)
        tab = page.tab
        tab.fill(".expect textarea", "fruit\nrock\nwater")
        tab.click(".expect .main")
        page.see(f"{SETTLED} && naq.store.state.classes.length === 3 && !document.querySelector('aside .expect')")
        right = page.value("naq.store.names.filter((name, i) => naq.store.predicted[i] === i % 3).length")
        assert right > 100 and page.value("naq.store.names[0]") == "apple 0"  # of 120
        # the card: name, id, text with the words that spoke, the table's own cells
        page.find("stone 4")
        page.see("naq.store.card && naq.store.card.prediction")
        card = tab.inner_text(".card")
        assert "id4" in card and "The rock" in card and "note 4" in tab.text_content(".card dl")
        marked = tab.locator(".card mark").all_inner_texts()
        assert marked and all(one.startswith("rock") for one in marked)
        # what cannot be read in the dialog is told, and nothing is made
        tab.click("button:text('Name more classes')")
        tab.fill("dialog textarea", "clay\nclay")
        tab.click("dialog .main")
        page.see("document.querySelector('dialog .refusal')")
        assert page.value("naq.store.state.classes.length") == 3
        context.close()


def test_walk_table_views_and_themes(opened):
    _, _, page = opened
    tab = page.tab
    page.find("apple 6")
    page.see("naq.store.card && naq.store.card.prediction && naq.store.card.similar.length === 8")
    tab.click("summary:text('Joined to')")
    before = page.value("naq.store.current")
    tab.click(".near button >> nth=0")
    page.see(f"naq.store.current !== {before} && {STILL}")
    scale = page.value("naq.map.camera.scale")
    tab.keyboard.press("Shift+Digit1")  # zooms to a class
    page.see(f"{STILL} && naq.map.camera.scale !== {scale}")
    tab.keyboard.press("k")
    page.see("document.querySelector('.legend')")
    tab.keyboard.press("p")
    page.see("naq.store.placesName === 'pca'")
    tab.keyboard.press("t")  # the table: arrows, Space selects
    tab.focus(".table tbody tr >> nth=8")
    for key in ("Space", "ArrowDown", "Space"):
        tab.keyboard.press(key)
    page.see("naq.store.selection.size === 2 || naq.store.selection.size === 3")
    tab.keyboard.press("Escape")
    for theme in ("light", "dark"):
        tab.click("[aria-label^='Appearance']")
        page.see(f"document.documentElement.dataset.theme === '{theme}'")
    tab.set_viewport_size({"width": 390, "height": 800})
    page.see("document.documentElement.scrollWidth <= innerWidth")
    named = "e.ariaLabel || e.textContent.trim() || e.title || e.closest('label')"  # what can be pressed has a name
    assert page.value(f"[...document.querySelectorAll('button, input, select')].every((e) => {named})")


PLACED = "naq.store.columns.get({0}) && naq.store.columns.get({0}).values.length === 120"


def test_columns_sort_filter_and_colour(chromium, cache, in_process, tmp_path):
    """Against the cells of the table themselves; also for names that are no names, and bounds that are no numbers."""
    graph = text_graph()
    own = {str(name): [graph.table.cell(i, k) for i in range(120)] for k, name in enumerate(graph.table.columns)}
    own["size"] = [cell if i % 10 else "NaN" for i, cell in enumerate(own["size"])]
    own |= {"__proto__": [str(i % 4) for i in range(120)], "--seed": [f"2021-{1 + i % 12:02}-05" for i in range(120)]}
    own["long"] = ["x" * 90_000 + f" Needle{i % 9}" if i < 12 else "" for i in range(120)]
    graph = graph.with_table(NodeTable.of(own, "title", ["words"]))
    size = [float(cell) for cell in own["size"]]
    with studio(graph, tmp_path / "j.csv", learn=True) as running:
        context = chromium.new_context(viewport={"width": 1300, "height": 900})
        page = Page(context, running.address)
        tab = page.tab

        def listed():
            return [int(name.split()[1]) for name in tab.locator(".table tbody .name").all_inner_texts()]

        def lists(wanted):
            page.see(f"document.querySelectorAll('.table tbody tr').length === {len(wanted)}")
            assert listed() == wanted

        tab.keyboard.press("t")
        page.see("naq.store.titles.length === 9")
        assert tab.locator("th .sort:not([aria-label])").all_inner_texts() == ["Node", "Class", "Sure", "words", "size"]
        page.see(PLACED.format(2))
        tab.click("th .sort:text-is('size')")
        ascending = sorted((i for i in range(120) if i % 10), key=lambda i: size[i])
        page.see("document.querySelector('th[aria-sort=ascending]')")
        assert listed() == ascending[:100]
        tab.click("th .sort:has-text('size')")
        page.see("document.querySelector('th[aria-sort=descending]')")
        assert listed() == ascending[::-1][:100]  # empty ones are last all the same
        tab.fill("[aria-label='size from']", "70")
        lists([i for i in ascending[::-1] if size[i] >= 70])
        tab.fill("[aria-label='size to']", "ninety")
        page.see("document.querySelector('.filters .refusal')?.textContent.includes('ninety')")
        lists([i for i in ascending[::-1] if size[i] >= 70])
        for column in ("__proto__", "--seed", "long"):
            tab.select_option("[aria-label='Show another column']", label=column)
        for number in (5, 6, 7):
            page.see(PLACED.format(number))
        tab.fill("[aria-label='size to']", "80,5")
        tab.fill("[aria-label='--seed from']", "2021-03")
        tab.fill("[aria-label='--seed to']", "2021-10")
        wanted = [i for i in ascending[::-1] if 70 <= size[i] <= 80.5 and 2 <= i % 12 <= 9]
        lists(wanted)
        tab.fill("[aria-label='__proto__ from']", "2")
        wanted = [i for i in wanted if i % 4 >= 2]
        assert len(wanted) > 2
        lists(wanted)
        tab.click("button:text('Select these')")
        page.see("naq.store.selection.size > 0")
        assert set(page.value("[...naq.store.selection]")) == set(wanted)
        for column in ("size", "--seed", "__proto__"):
            tab.click(f"[aria-label='Hide {column}']")
        tab.fill("[aria-label='long contains']", "needle5")
        lists([5])
        assert len(tab.inner_text(".table tbody tr:first-child td:last-child")) < 200
        # colours and legends, edges, what the pointer shows
        tab.keyboard.press("Escape")
        tab.keyboard.press("t")
        for column, told in (("size", "12 empty"), ("kind", "big"), ("words", "no colours"), ("edges", "by rank|\\d")):
            tab.select_option("[aria-label='Colour by a column']", label=column)
            page.see(f"/{told}/.test(document.querySelector('.legend')?.textContent)")
        tab.select_option("[aria-label='Colour by a column']", label="kind")
        page.see("naq.map.seen.looks && naq.map.seen.looks.at(-1)?.title === 'kind'")
        painted = tab.evaluate(COUNTED)
        assert painted["blue"] > 20 and painted["orange"] > 20
        tab.keyboard.press("e")
        page.see("0 < naq.store.edgesShown?.total")
        assert page.value("naq.store.edgesShown.total") < graph.num_edges  # the selection is in view
        tab.keyboard.press("f")
        page.see(f"naq.store.edgesShown?.total === {graph.num_edges}")
        tab.keyboard.press("e")
        page.see(f"!naq.store.edgesShown && {STILL}")
        painted = tab.evaluate(COUNTED)
        tab.keyboard.press("e")
        page.see("naq.store.edgesShown")
        assert tab.evaluate(COUNTED)["painted"] > 1.2 * painted["painted"]
        tab.keyboard.press("e")
        page.see("!naq.store.edgesShown && document.querySelector('.legend').textContent.includes('kind')")
        assert page.complaints == []
        context.close()


def test_doubtful_labels_pictures_and_weights(chromium, cache, in_process, tmp_path):
    graph = text_graph()
    (tmp_path / "a.png").write_bytes(PNG)
    own = {"title": graph.names.tolist(), "picture": ["a.png", "missing.png"] * 60}
    graph = graph.with_table(NodeTable.of(own, "title")).with_source(str(tmp_path / "g.npz"))
    with studio(graph, tmp_path / "j.csv", learn=True) as running:
        running.session.images = Images(graph, "picture")
        kinds = ["fruit", "rock", "water"]
        rows = [Entry("label", i, kinds[i % 3]) for i in range(24)]
        running.session.write([*rows, Entry("label", 24, "rock"), Entry("label", 25, "fruit")])  # both wrong
        context = chromium.new_context(viewport={"width": 1300, "height": 900})
        page = Page(context, running.address)
        tab = page.tab
        page.see(f"{SETTLED} && naq.store.state.doubtful.length > 1")
        tab.click("summary:text('Labels to look at again')")
        tab.click(".doubtful button:text-is('id24')")
        page.see("naq.store.current === 24 && document.querySelector('.picture img')?.naturalWidth === 1")
        tab.click(".doubtful li:has-text('id24') button:text('Keep')")
        tab.click(".doubtful li:has-text('id25') button:text('Change')")
        page.see(f"{SETTLED} && naq.store.given[25] === 1")
        page.see("!naq.store.state.doubtful.some((one) => one.node === 24 || one.node === 25)")
        assert running.session.journal.board.kept == {24: True} and running.session.journal.board.labels[24] == 1
        tab.fill("#search", "id25")
        page.see("document.querySelector('#hits [role=option]')")
        tab.press("#search", "Enter")
        page.see("document.querySelector('.card').textContent.includes('cannot read missing.png')")
        assert tab.locator(".weights li").count() > 1
        shares = tab.locator(".classes tbody td:nth-child(4)").all_inner_texts()
        assert len(shares) == 3 and all("%" in one for one in shares)
        page.complaints.clear()  # the browser notes the picture that is missing
        context.close()


def test_two_tabs_reload_and_export(opened, tmp_path):
    running, context, page = opened
    other = Page(context, f"http://127.0.0.1:{running.port}/")
    page.find("river 2")
    page.name("water")
    for one in (page, other):
        one.see("naq.store.state.classes.length === 3 && naq.store.given[2] === 2")
    other.tab.keyboard.press("Control+z")
    page.see(f"{SETTLED} && naq.store.state.classes.length === 2")
    other.see(f"{SETTLED} && naq.store.state.classes.length === 2")
    page.tab.keyboard.press("Control+y")
    other.see(f"{SETTLED} && naq.store.state.classes.length === 3")
    page.tab.reload()
    page.see(f"{READY} && naq.store.state.classes.length === 3 && naq.store.given[2] === 2")
    page.tab.keyboard.press("w")
    saved = {}
    for name in ("predictions.csv", "labels.csv", "report.html", "repeat.py"):
        with page.tab.expect_download() as download:
            page.tab.click(f"[data-export='{name}']")
        saved[name] = Path(download.value.path()).read_text(encoding="utf-8")
    rows = list(csv.DictReader(saved["predictions.csv"].splitlines()))
    assert len(rows) == 120 and {row["class"] for row in rows} == {"fruit", "rock", "water"}
    assert (
        "river 2,water" in saved["labels.csv"]
        and "<h1>groups</h1>" in saved["report.html"]
        and "naq.FewShotNodeClassifier" in saved["repeat.py"]
    )
    assert other.complaints == []
    other.tab.close()


def test_an_answer_before_the_first_frame_is_drawn(opened):
    """A settled studio sends one answer, then nothing: a page that starts to listen after it would wait without end."""
    running, context, _ = opened
    tab = context.new_page()
    slow = "window.setTimeout = (f, t, ...rest) => later(f, t <= 100 ? 3000 : t, ...rest);"
    tab.add_init_script(f"{{ const later = setTimeout; requestAnimationFrame = (f) => later(f, 3000); {slow} }}")
    tab.goto(f"http://127.0.0.1:{running.port}/")
    until(tab, READY)
    tab.close()


def test_a_killed_server_loses_nothing(chromium, cache, tmp_path):
    """kill -9 right after a label, start again: the label is there, and undo still works."""
    path = save_graph(tmp_path / "groups.npz", word_graph())
    started = []

    def start() -> str:
        command = [sys.executable, "-m", "naq", "studio", str(path), "--no-browser", "--port", str(port)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout is not None
        return next(found[1] for line in process.stdout if (found := re.search(r"Open (\S+)", line)))

    port = random.randrange(20_000, 30_000)  # none of those that the system gives away: it is needed twice
    context = chromium.new_context()
    try:
        address = start()
        port = int(address.split(":")[2].split("/")[0])
        page = Page(context, address, "window.naq && naq.store.state && naq.store.given")
        page.find("apple 9")
        page.name("fruit")
        page.see("naq.store.busy === 0 && naq.store.state.labels === 1")
        os.kill(started[-1].pid, signal.SIGKILL)
        started[-1].wait()
        page.see("naq.store.lost")
        second = Page(context, start(), "window.naq && naq.store.state && naq.store.given")
        assert second.value("naq.store.given[9]") == 0 and second.value("naq.store.state.undo") == 1
        page.see("!naq.store.lost && naq.store.state.labels === 1")  # the old tab goes on by itself
        page.tab.keyboard.press("Control+z")
        second.see("naq.store.state.labels === 0 && naq.store.state.redo === 1")
    finally:
        context.close()
        for process in started:
            process.kill()
            process.wait()
            process.stdout.close()


def test_without_webgl_there_is_a_map_and_a_table(driver, cache, tmp_path):
    with studio(word_graph(), tmp_path / "j.csv", learn=True) as running, browser(*WITHOUT_GL, driver=driver) as plain:
        page = Page(plain.new_context(), running.address)
        assert page.value("naq.map.software && !document.createElement('canvas').getContext('webgl2')")
        assert page.tab.evaluate(COUNTED)["painted"] > 0
        page.tab.keyboard.press("t")
        page.see("document.querySelectorAll('.table tbody tr').length === 100")
        assert page.complaints == []


AS_A_CARD = """const own = WebGL2RenderingContext.prototype.getParameter;
  WebGL2RenderingContext.prototype.getParameter = function (what) {
    return what === 37446 || what === this.RENDERER ? 'a graphics card' : own.call(this, what); };"""


def test_webgl_draws_the_same(chromium, cache, tmp_path):
    """As with a graphics card: the two renderers put the same colours in about the same amounts on the screen."""
    ready, found = f"{READY} && {SETTLED} && naq.store.placesName === 'pacmap' && {STILL}", []
    with studio(word_graph(), tmp_path / "j.csv", learn=True) as running:
        for first, name in ((0, "fruit"), (1, "rock")):
            running.act(action="label", nodes=[first, first + 3, first + 6], new=name)
        for script in (AS_A_CARD, ""):
            context = chromium.new_context(viewport={"width": 1000, "height": 700})
            context.add_init_script(script)
            answer = running.request("POST", "/api/invite", {}, b"{}")[1]
            page = Page(context, json.loads(answer.split(b"\r\n\r\n", 1)[1])["address"], ready)
            assert page.value("!!naq.map.software") == (not script)
            page.tab.evaluate("() => { naq.map.drawOverlay = () => {}; }")
            found.append(page.tab.evaluate(COUNTED))
            context.close()
    for name, least, most in (("blue", 0.5, 2), ("orange", 0.5, 2), ("painted", 0.7, 1.4)):
        assert found[0][name] > 30 and least < found[0][name] / found[1][name] < most


def test_a_file_opens_the_page_and_another_port_gets_nothing_it_can_use(chromium, cache, tmp_path):
    got = []

    class Other(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            got.append(self.headers["Cookie"])
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    other = http.server.HTTPServer(("127.0.0.1", 0), Other)
    threading.Thread(target=other.serve_forever, daemon=True).start()
    with studio(word_graph(30), tmp_path / "j.csv") as running, entrance(running.address) as file:
        context = chromium.new_context()
        page = Page(context, file.as_uri(), "window.naq && naq.store.state")
        assert page.tab.url == f"http://127.0.0.1:{running.port}/" and page.complaints == []
        page.tab.goto(f"http://127.0.0.1:{other.server_port}/")
        assert page.value("localStorage.length") == 0
        stolen = {"Cookie": next(filter(None, got)), "X-Naq-Key": None}
        for path in ("/api/state", "/api/events", "/?token=x", "/"):
            status, answer = running.request("GET", path, stolen)
            assert status == 403 if path[1:4] == "api" else running.key.encode() not in answer
        context.close()
    other.shutdown()
    other.server_close()
