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
