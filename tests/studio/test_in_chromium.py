"""The studio as people use it: headless Chromium on a small graph."""

from __future__ import annotations

import csv
import http.server
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
from naq_studio.server import entrance
from studio_under_test import studio, text_graph, word_graph

pytestmark = pytest.mark.skipif(missing() is not None, reason=str(missing()))


@pytest.fixture
def opened(chromium, cache, tmp_path):
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


def colours_on_screen(page):
    """How many pixels of the map have each colour."""
    return page.tab.evaluate(
        """() => { const m = naq.map; m.frame(performance.now()); const data = m.points.context.getImageData(0, 0, m.canvas.width, m.canvas.height).data;
        const found = {}; for (let i = 0; i < data.length; i += 4) { const key = data[i] + "," + data[i + 1] + "," + data[i + 2]; found[key] = (found[key] || 0) + 1; } return found; }"""
    )


def test_label_predict_undo_queue_search(opened):
    running, _, page = opened
    # predictions colour the map: both colours, in full for labels, paler for others
    page.tab.keyboard.press("Escape")
    page.tab.keyboard.press("f")
    page.see(STILL)
    shown = colours_on_screen(page)
    assert shown.get("0,114,178", 0) > 20 and shown.get("230,159,0", 0) > 20
    right = page.value(
        "naq.store.names.filter((name, i) => (name.startsWith('apple') && naq.store.predicted[i] === 0) || (name.startsWith('stone') && naq.store.predicted[i] === 1)).length"
    )
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
    page.see(
        f"{SETTLED} && naq.store.state.labels === 4 && naq.store.state.none === 0 && naq.store.state.skipped === 0"
    )
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
    tab.evaluate(
        "() => { const r = document.querySelector('.accept input'); r.value = 80; r.dispatchEvent(new Event('input', { bubbles: true })); }"
    )
    sure = page.value(
        "naq.store.given.reduce((sum, given, i) => sum + (given === -3 && naq.store.predicted[i] >= 0 && naq.store.sure[i] >= 2.55 * 80 ? 1 : 0), 0)"
    )
    tab.click(".accept button")
    page.see("document.querySelectorAll('ol.check li').length === 10")
    for place in range(10):
        assert tab.is_disabled("dialog .main")
        tab.click(f"ol.check li:nth-child({place + 1}) button:text('{'Right' if place else 'Wrong'}')")
    tab.click("dialog .main")
    page.see(f"{SETTLED} && naq.store.state.labels > 4")
    assert abs(page.value("naq.store.state.labels") - 4 - (sure - 1)) <= 2  # rounding to 1/255; one was wrong
    assert "9 of 10" in tab.inner_text("dialog")
    tab.click("dialog .main")
    tab.keyboard.press("Control+z")
    page.see(f"{SETTLED} && naq.store.state.labels === 4")


def test_names_of_classes_colour_the_map(chromium, cache, tmp_path):
    with studio(text_graph(), tmp_path / "j.csv", learn=True) as running:
        context = chromium.new_context(viewport={"width": 1200, "height": 800})
        page = Page(context, running.address)
        tab = page.tab
        assert "Which classes do you expect?" in tab.inner_text("aside") and not page.value("naq.store.state.answer")
        tab.fill(".expect textarea", "fruit\nrock\nwater")
        tab.click(".expect .main")
        page.see(f"{SETTLED} && naq.store.state.classes.length === 3")
        page.see(
            "!document.querySelector('aside .expect') && /% are expected/.test(document.querySelector('.hint').textContent)"
        )
        right = page.value("naq.store.names.filter((name, i) => naq.store.predicted[i] === i % 3).length")
        assert right > 100 and page.value("naq.store.names[0]") == "apple 0"  # of 120
        tab.keyboard.press("f")
        page.see(STILL)
        assert len(colours_on_screen(page)) > 20  # three classes, each in many strengths
        # the card: name, id, text with the words that spoke, the table's own cells, labelled by its prediction
        page.find("stone 4")
        page.see("naq.store.card && naq.store.card.prediction")
        card = tab.inner_text(".card")
        assert "id4" in card and "The rock" in card and "note 4" in tab.text_content(".card dl")
        marked = tab.locator(".card mark").all_inner_texts()
        assert marked and all(one.startswith("rock") for one in marked)
        # a further class in the dialog that is in the list of classes; what cannot be read is told, and nothing is made
        tab.click("button:text('Name more classes')")
        tab.fill("dialog textarea", "clay\nclay")
        tab.click("dialog .main")
        page.see("document.querySelector('dialog .refusal')")
        assert page.value("naq.store.state.classes.length") == 3
        tab.keyboard.press("Escape")
        tab.click("[aria-label='Change fruit']")
        assert tab.input_value("[aria-label='What it is about']") == ""
        tab.set_viewport_size({"width": 390, "height": 800})
        page.see("document.documentElement.scrollWidth <= innerWidth")
        context.close()


def test_walk_table_views_and_themes(opened):
    _, _, page = opened
    tab = page.tab
    page.find("apple 6")
    page.see("naq.store.card && naq.store.card.prediction && naq.store.card.similar.length === 8")
    card = tab.inner_text(".card")
    assert "Prediction:" in card and "else" in card and "Its nearest label:" in card
    tab.click("summary:text('Joined to')")
    before = page.value("naq.store.current")
    tab.click(".near button >> nth=0")
    page.see(f"naq.store.current !== {before}")
    # zoom to a class, colour by confidence, other layout
    page.see(STILL)
    scale = page.value("naq.map.camera.scale")
    tab.keyboard.press("Shift+Digit1")
    page.see(f"{STILL} && naq.map.camera.scale !== {scale}")
    tab.keyboard.press("k")
    page.see("document.querySelector('.legend')")
    tab.keyboard.press("p")
    page.see("naq.store.placesName === 'pca'")
    # the table: arrows, Space selects, number keys label
    tab.keyboard.press("t")
    tab.focus(".table tbody tr >> nth=8")
    tab.keyboard.press("Space")
    tab.keyboard.press("ArrowDown")
    tab.keyboard.press("Space")
    page.see("naq.store.selection.size === 2 || naq.store.selection.size === 3")
    tab.select_option(".table select >> nth=1", "doubt")
    tab.keyboard.press("Escape")
    for theme in ("light", "dark"):
        tab.click("[aria-label^='Appearance']")
        page.see(f"document.documentElement.dataset.theme === '{theme}'")
    tab.click("[aria-label^='Appearance']")
    tab.set_viewport_size({"width": 390, "height": 800})
    page.see("document.documentElement.scrollWidth <= innerWidth")
    # everything that can be pressed has a name
    nameless = page.value(
        "[...document.querySelectorAll('button, input, select')].filter((e) => !(e.ariaLabel || e.textContent.trim() || e.title || e.closest('label'))).map((e) => e.outerHTML)"
    )
    assert nameless == []


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
    """A settled studio sends one answer and then nothing more: a page that starts to listen after it would wait for ever."""
    running, context, _ = opened
    tab = context.new_page()
    tab.add_init_script(
        "{ const later = setTimeout; window.requestAnimationFrame = (f) => later(f, 3000); window.setTimeout = (f, t, ...rest) => later(f, t <= 100 ? 3000 : t, ...rest); }"
    )
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
        assert len(colours_on_screen(page)) > 1
        page.tab.keyboard.press("t")
        page.see("document.querySelectorAll('.table tbody tr').length === 100")
        assert page.complaints == []


def test_webgl_draws_the_same(chromium, cache, tmp_path):
    """As with a graphics card: the two renderers put the same colours in about the same amounts on the screen."""
    with studio(word_graph(), tmp_path / "j.csv", learn=True) as running:
        for node in (0, 3, 6):
            running.act(action="label", nodes=[node], new="fruit")
        for node in (1, 4, 7):
            running.act(action="label", nodes=[node], new="rock")
        context = chromium.new_context(viewport={"width": 1000, "height": 700})
        context.add_init_script(
            "const own = WebGL2RenderingContext.prototype.getParameter;"
            "WebGL2RenderingContext.prototype.getParameter = function (what) { return what === 37446 || what === this.RENDERER ? 'a graphics card' : own.call(this, what); };"
        )
        page = Page(
            context,
            running.address,
            f"{READY} && {SETTLED} && naq.store.placesName === 'pacmap' && {STILL}",
        )
        assert not page.value("naq.map.software")
        counted = page.tab.evaluate(
            """() => { const m = naq.map, g = m.points.gl; m.frame(performance.now()); const w = m.canvas.width, h = m.canvas.height, data = new Uint8Array(4 * w * h);
            g.readPixels(0, 0, w, h, g.RGBA, g.UNSIGNED_BYTE, data); let [blue, orange, painted] = [0, 0, 0];
            for (let i = 0; i < data.length; i += 4) { const near = (r, gg, b) => Math.abs(data[i] - r) < 3 && Math.abs(data[i + 1] - gg) < 3 && Math.abs(data[i + 2] - b) < 3;
              if (near(0, 114, 178)) blue++; if (near(230, 159, 0)) orange++; if (!near(255, 255, 255)) painted++; }
            return { blue, orange, painted }; }"""
        )
        context.close()
        context = chromium.new_context(viewport={"width": 1000, "height": 700})
        plain = Page(
            context,
            running.session and invite(running),
            f"{READY} && {SETTLED} && naq.store.placesName === 'pacmap' && {STILL}",
        )
        plain.tab.evaluate("() => { naq.map.drawOverlay = () => {}; }")
        shown = colours_on_screen(plain)
        context.close()
    painted = sum(shown.values()) - shown["255,255,255"]

    def near(r, g, b):
        return sum(
            count
            for key, count in shown.items()
            if max(abs(int(one) - two) for one, two in zip(key.split(","), (r, g, b))) < 3
        )

    assert counted["blue"] > 30 and 0.5 < counted["blue"] / near(0, 114, 178) < 2
    assert counted["orange"] > 30 and 0.5 < counted["orange"] / near(230, 159, 0) < 2
    assert 0.7 < counted["painted"] / painted < 1.4


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


def invite(running) -> str:
    import json

    answer = running.request("POST", "/api/invite", {}, b"{}")[1]
    return json.loads(answer.split(b"\r\n\r\n", 1)[1])["address"]
