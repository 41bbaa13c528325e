"""One browser for all tests of a file, and a cache for what was learned."""

from __future__ import annotations

import os

import pytest

from chromium_under_test import browser


@pytest.fixture(scope="module")
def driver():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as own:
        yield own


@pytest.fixture(scope="module")
def chromium(driver):
    with browser(driver=driver) as opened:
        yield opened


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    before = os.environ.get("NAQ_CACHE")
    os.environ["NAQ_CACHE"] = str(tmp_path_factory.mktemp("cache"))
    yield
    del os.environ["NAQ_CACHE"]
    if before is not None:
        os.environ["NAQ_CACHE"] = before


@pytest.fixture
def in_process(monkeypatch):
    """The long work in this process, which has loaded torch already; tests of the cache and of a kill use another."""
    from naq.io.npz import save_graph
    from naq_studio import model
    from naq_studio.cache import read_layout
    from naq_studio.prepare import prepare

    def inline(self, folder, temporary):
        prepare(save_graph(temporary / "graph.npz", self.graph.without_labels()), folder, model.METHOD, self.seed)
        self._load(folder)
        self.layouts["pacmap"] = read_layout(folder, "pacmap", self.graph.num_nodes)

    monkeypatch.setattr(model.Model, "_prepare", inline)
