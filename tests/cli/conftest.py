"""The program in this process, and a graph file of communities."""

from __future__ import annotations

import sys

import pytest

import methods_under_test as suite
from naq.cli.main import main
from naq.io import save_graph


@pytest.fixture
def call(tmp_path, tmp_path_factory, monkeypatch, capsys):
    """``naq WORDS`` in a temporary folder: exit code, standard output, standard error."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("NAQ_CACHE", str(tmp_path_factory.mktemp("cache")))

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["naq", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main()
        shown = capsys.readouterr()
        return int(ended.value.code or 0), shown.out, shown.err

    return run


@pytest.fixture(scope="module")
def graph_file(tmp_path_factory):
    return save_graph(tmp_path_factory.mktemp("graph") / "communities.npz", suite.community_graph(size=24))
