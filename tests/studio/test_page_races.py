"""Answers that come late, in another order or not at all: the page shows what the server has, and no key is lost."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from chromium_under_test import LONG, Page, missing
from naq.errors import DataError
from naq_studio.board import Entry
from studio_under_test import studio, wait_until, word_graph

pytestmark = pytest.mark.skipif(missing() is not None, reason=str(missing()))
UP = "window.naq && naq.store.state && naq.store.places && naq.store.queue.length"
UNLABELLED = -3


class Held:
    """Answers to some requests of a tab, handed over when released; those after it come as always."""

    def __init__(self, tab, pattern):
        self.tab, self.holding, self.answers = tab, True, []
        tab.route(pattern, self._hold)

    def _hold(self, route):
        if self.holding:
            self.answers.append((route, route.fetch()))
        else:
            route.continue_()

    def wait(self, count=1):
        wait_for(lambda: len(self.answers) >= count, self.tab)

    def release(self):
        self.holding = False
        for route, answer in self.answers:
            route.fulfill(response=answer)


def wait_for(condition, tab=None):
    """Playwright's events are handled within its calls."""
    wait_until(condition if tab is None else lambda: (tab.evaluate("0"), condition())[1], LONG)


@pytest.fixture
def quiet(tmp_path):
    """A studio that learns nothing, with one class, suggestions and two maps that were put there."""
    with studio(word_graph(), tmp_path / "j.csv") as running:
        session, draw = running.session, np.random.default_rng(0)
        session.model.layouts = {name: draw.uniform(-1, 1, (120, 2)).astype(np.float32) for name in ("pca", "pacmap")}
        session.model.phase = "ready"
        session.write([Entry("label", 0, "fruit")])
        session.queue = list(range(10, 20))
        yield running


@pytest.fixture
def page(chromium, quiet):
    context = chromium.new_context(viewport={"width": 1200, "height": 800})
    yield Page(context, quiet.address, UP)
    context.close()


def test_a_state_from_before_a_key_does_not_bring_the_node_back(page, quiet):
    """Else the next key would label the node that was labelled already."""
    setter = "get: () => naq.own, set: (node) => { naq.own = node; naq.been.push(node); }"
    page.value(
        f"{{ naq.been = []; naq.own = naq.store.current; "
        f"Object.defineProperty(naq.store, 'current', {{ {setter} }}); }}"
    )
    held = Held(page.tab, "**/api/state")
    quiet.session.publish()
    held.wait()
    page.tab.keyboard.press("1")
    page.see("naq.store.current === 11 && naq.store.busy === 0")
    held.release()
    page.see("naq.store.state.labels === 2")
    assert page.value("naq.been.includes(10)") is False
    assert page.value("naq.store.current") == 11 and page.value("naq.store.given[10]") == 0


def test_a_state_from_between_two_keys_is_not_taken_for_one_after_both(page, quiet):
    """A node whose label was undone is suggested again."""
    asked = []
    page.tab.route("**/api/act", lambda route: asked.append(route))
    page.tab.keyboard.press("1")
    wait_for(lambda: asked, page.tab)
    first = asked[0].fetch()
    page.tab.wait_for_timeout(300)  # for the page to hear of it
    page.tab.keyboard.press("Control+z")
    asked[0].fulfill(response=first)
    wait_for(lambda: len(asked) == 2, page.tab)
    page.tab.wait_for_timeout(300)  # for a page that would ask for the state now
    assert page.value("naq.store.current") == 11
    asked[1].continue_()
    page.see("naq.store.busy === 0 && naq.store.state.redo === 1 && naq.store.current === 10")
    assert page.value(f"naq.store.given[10] === {UNLABELLED}")


def test_what_is_looked_at_stays(page, quiet):
    """The server may have found other suggestions before it heard of the last label."""
    assert page.value("naq.store.current") == 10
    with quiet.session.lock:
        quiet.session.queue = [30, 31, 32]
    quiet.session.publish()
    page.see("naq.store.queue.includes(30)")
    assert page.value("[naq.store.current, ...naq.store.queue]") == [10, 10, 30, 31, 32]
    page.tab.keyboard.press("1")
    page.see("naq.store.state.labels === 2 && naq.store.current === 30")
    assert quiet.session.journal.board.labels == {0: 0, 10: 0}
    # but not once it was labelled in another tab
    quiet.act(action="label", nodes=[30], **{"class": 0})
    page.see("naq.store.given[30] === 0 && naq.store.current === 31")


def test_a_label_that_was_refused_is_not_shown(page, quiet, monkeypatch):
    def full(rows):
        raise DataError("no space left.")

    monkeypatch.setattr(quiet.session.journal, "write", full)
    page.tab.keyboard.press("1")
    page.see("naq.store.problem.includes('no space') && naq.store.busy === 0")
    page.see(f"naq.store.given[10] === {UNLABELLED} && naq.store.queue.includes(10)")


def test_a_number_key_waits_for_the_class_that_was_just_made(page, quiet):
    held = Held(page.tab, "**/api/state")
    page.name("rock")
    held.wait()
    page.see("naq.store.current === 11")
    page.tab.keyboard.press("2")
    held.release()
    page.see("naq.store.busy === 0 && naq.store.state.labels === 3")
    assert quiet.session.journal.board.labels == {0: 0, 10: 1, 11: 1}


def test_a_label_that_was_just_given_can_be_removed(page, quiet):
    page.find("apple 33")
    held = Held(page.tab, "**/api/state")
    page.name("rock")
    held.wait()
    page.tab.keyboard.press("u")
    held.release()
    page.see("naq.store.busy === 0 && naq.store.state.undo === 3")
    assert quiet.session.journal.board.labels == {0: 0} and "label removed" in page.value("naq.store.message")
    page.tab.keyboard.press("u")
    page.see("naq.store.message === 'Nothing here has a label.'")


def test_the_map_is_the_one_that_was_asked_for_last(page):
    page.see("naq.store.placesName === 'pacmap'")
    held = Held(page.tab, "**/api/layout/pca")
    page.tab.keyboard.press("p")
    held.wait()
    page.tab.keyboard.press("p")
    page.see("naq.store.wantedLayout === 'pacmap'")
    held.release()
    page.tab.keyboard.press("p")
    page.see("naq.store.placesName === 'pca'")
    assert page.value("naq.store.wantedLayout") == "pca"


def test_a_card_that_comes_late_does_not_replace_a_newer_one(page, quiet):
    held = Held(page.tab, "**/api/node/33")
    page.find("apple 33")
    held.wait()
    assert quiet.act(action="label", nodes=[33], **{"class": 0})[0] == 200
    held.wait(2)
    first, second = held.answers
    second[0].fulfill(response=second[1])
    page.see("naq.store.card && naq.store.card.given === 0")
    first[0].fulfill(response=first[1])
    page.see("performance.getEntriesByType('resource').filter((one) => one.name.endsWith('/api/node/33')).length === 2")
    assert page.value("naq.store.card.given") == 0


def test_another_server_with_the_same_version_is_drawn_anew(page, quiet):
    """After a restart versions count from one again; it may be another graph, too."""
    session = quiet.session
    with session.lock:
        session.journal.write([Entry("label", 40, "fruit")])  # not counted
        session.start_id = "another"
    session.publish()
    page.see("naq.store.given[40] === 0 && naq.map.seen.places === naq.store.places && !!naq.map.regions")
    with session.lock:
        session.graph, session.start_id = word_graph(60, names=[f"n {i}" for i in range(60)]), "a third"
        session.model.layouts = {"pca": session.model.layouts["pca"][:60]}
    page.tab.keyboard.press("q")
    session.publish()
    page.see("naq.store.names[1] === 'n 1' && naq.store.given.length === 60 && naq.store.places.length === 120")
    assert page.complaints == []


def test_the_card_is_read_again_when_the_graph_is_learned(page, quiet):
    page.find("apple 33")
    page.see("naq.store.card && naq.store.card.similar.length === 0")
    with quiet.session.lock:
        quiet.session._answered = quiet.session.version
        quiet.session.model.classifier = SimpleNamespace(vectors_=np.random.default_rng(0).random((120, 4)))
    quiet.session.publish()
    page.see("naq.store.state.learned && naq.store.card.similar.length === 8")


def test_a_table_of_wide_characters_is_imported(page, quiet):
    """A browser keeps 64 KiB of requests beyond the end of a page; these are less in characters, more in bytes."""
    table = "node,class\n" + "".join(f"{node},{'漢' * 76}\n" for node in range(350))
    assert len(table) < 30_000 and len(table.encode()) > 1 << 16
    page.tab.keyboard.press("w")
    page.tab.set_input_files("input[type=file]", {"name": "t.csv", "mimeType": "text/csv", "buffer": table.encode()})
    page.see("naq.store.problem || naq.store.imported")
    assert page.value("[naq.store.problem, naq.store.imported.changed]") == ["", 120]


def test_a_server_that_is_away_is_asked_now_and_then(page, quiet):
    """However many events came while it failed."""
    page.value("{ const later = setTimeout; window.setTimeout = (f, t) => later(f, t === 3000 ? 300 : t); }")
    asked = []
    page.tab.route("**/api/state", lambda route: (asked.append(1), route.abort()))
    for count in range(1, 9):
        quiet.session.publish()
        wait_for(lambda count=count: len(asked) >= count, page.tab)
    before = len(asked)
    page.tab.wait_for_timeout(900)
    assert len(asked) - before <= 4
    page.tab.unroute("**/api/state")
    page.see("!naq.store.unreachable && !naq.store.problem")


def test_a_reload_asks_before_keys_are_lost(page, quiet):
    """What was sent arrives; what waits behind it would not."""
    held = Held(page.tab, "**/api/act")
    asked = []
    page.tab.on("dialog", lambda dialog: (asked.append(dialog.type), dialog.dismiss()))
    page.tab.keyboard.press("1")
    held.wait()
    page.tab.keyboard.press("1")
    page.value("setTimeout(() => location.reload(), 0)")
    wait_for(lambda: asked, page.tab)
    held.release()
    page.see("naq.store.busy === 0 && naq.store.state.labels === 3")
    assert asked == ["beforeunload"]


def test_a_tab_that_nobody_sees_keeps_no_connection(chromium, quiet):
    """Browsers allow six to a server; a tab may be opened in the background."""
    context = chromium.new_context()
    hidden = "Object.defineProperty(Document.prototype, 'hidden', { get: () => away });"
    context.add_init_script(f"window.away = true; {hidden}")
    page = Page(context, quiet.address, UP)
    assert not quiet.session._listeners
    quiet.act(action="label", nodes=[50], **{"class": 0})
    show = "{ away = %s; document.dispatchEvent(new Event('visibilitychange')); }"
    page.value(show % "false")
    page.see("naq.store.given[50] === 0")
    assert len(quiet.session._listeners) == 1
    page.value(show % "true")
    wait_for(lambda: not quiet.session._listeners)
    context.close()
