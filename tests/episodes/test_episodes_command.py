"""``naq episodes``: the options of the sampler reach it, and what it prints is what the episodes say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import methods_under_test as suite
import naq
from naq.cli.inspecting import episodes_command
from naq.data import save_graph
from naq.episodes import load_episodes


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
