"""``naq episodes``: the options of the sampler reach it, and what it prints is what the episodes say."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import methods_under_test as suite
import naq
from naq.cli.inspecting import episodes_command
from naq.episodes import load_episodes
from naq.errors import OptionError
from naq.io import save_graph


@pytest.mark.parametrize("by", ["features", "diffusion"])
def test_shots_and_supports_apart(by: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph = suite.community_graph()
    save_graph(tmp_path / "g.npz", graph)
    episodes_command(
        str(tmp_path / "g.npz"), by=by, way=3, shot=2, queries=4, count=40, apart=8, drop_overlap=True,
        out=tmp_path / "e.npz",
    )  # fmt: skip
    make = naq.feature_neighbors if by == "features" else naq.diffusion_neighbors
    expected = naq.naq_episodes(make(graph, 8), way=3, shot=2, queries=4, count=40, apart=8, drop_overlap=True)
    found = load_episodes(tmp_path / "e.npz")
    assert np.array_equal(found.support, expected.support) and np.array_equal(found.mask, expected.mask)
    shown = capsys.readouterr().out
    assert f"different true classes: {100 * expected.distinct_class_share(graph.labels):.1f} %" in shown
    assert f"support's class: {100 * expected.same_class_share(graph.labels):.1f} %" in shown
    assert "Overlap of queries: 0.000 %" in shown and "still near each other: 0 of 40" in shown


@pytest.mark.parametrize("by", ["feature", "diffusion"])
def test_episodes_from_a_table_that_was_made_before(
    by: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    graph = suite.community_graph()
    file = save_graph(tmp_path / "g.npz", graph)
    options = {"metric": "jaccard"} if by == "feature" else {"alpha": 0.3, "self_loops": False}
    table = (naq.feature_neighbors if by == "feature" else naq.diffusion_neighbors)(graph, 12, **options)
    table.save(tmp_path / "t.npz")
    episodes_command(
        str(file), table_file=tmp_path / "t.npz", way=3, queries=4, count=40, out=tmp_path / "e.npz", context=asked()
    )
    expected, found = naq.naq_episodes(table, way=3, queries=4, count=40), load_episodes(tmp_path / "e.npz")
    assert np.array_equal(found.support, expected.support) and np.array_equal(found.query, expected.query)
    assert "the table does not say" not in capsys.readouterr().err
    with pytest.raises(OptionError, match="k=12"):
        episodes_command(str(file), table_file=tmp_path / "t.npz", queries=20, context=asked())
    with pytest.raises(OptionError, match="self_loops="):
        episodes_command(str(file), table_file=tmp_path / "t.npz", context=asked("self_loops"))


def asked(*given: str) -> Any:
    """A command line on which these options were given."""
    source = {name: SimpleNamespace(name="COMMANDLINE") for name in given}
    return SimpleNamespace(get_parameter_source=lambda name: source.get(name))
