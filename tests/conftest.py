"""Tests compute as the command line does; numba's number of threads is put back after each test that changes it.

Hypothesis draws the same examples each time, so no test fails by chance; ``HYPOTHESIS_PROFILE=default`` draws others.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

from naq.threads import prepare_process

prepare_process()  # before torch is loaded

import numba  # noqa: E402
import pytest  # noqa: E402
from hypothesis import settings  # noqa: E402

from skipped import in_words  # noqa: E402

settings.register_profile("fixed", derandomize=True, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))


@pytest.fixture
def threads() -> Iterator[Callable[[int], None]]:
    before = numba.get_num_threads()
    if numba.config.NUMBA_NUM_THREADS < 2:
        pytest.skip("needs two cores")
    yield numba.set_num_threads
    numba.set_num_threads(before)


def pytest_unconfigure(config: pytest.Config) -> None:
    """The last line: what was skipped, and how to have it."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and (reports := reporter.stats.get("skipped")):
        reporter.write_line(in_words([str(one.longrepr[-1]) for one in reports if isinstance(one.longrepr, tuple)]))
