from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import methods_under_test as suite
import naq
from naq.episodes import Episodes
from naq.errors import OptionError
from naq.methods import EPISODE_KINDS, get_method
from naq.run.config import RunConfig
from naq.run.episodes import DEFAULTS, draw_episodes, episode_options

GRAPH = suite.community_graph()
kinds = pytest.mark.parametrize("kind", list(EPISODE_KINDS))
both = pytest.mark.parametrize("kind", ["naq-feat", "naq-diff"])


def draw(kind: str, given: dict[str, Any] | None = None, graph: naq.Graph = GRAPH, **how: Any) -> Episodes:
    config = RunConfig.resolve(f"{kind}/protonet", episode=given, **{"way": 2, "episodes": 30} | how)
    return draw_episodes(config, graph, suite.SPLIT, cache=None)


def table(kind: str, k: int) -> naq.NeighborTable:
    make = naq.feature_neighbors if kind == "naq-feat" else naq.diffusion_neighbors
    return make(GRAPH.without_labels(), k)


def same(one: Episodes, two: Episodes) -> bool:
    return all(np.array_equal(getattr(one, name), getattr(two, name)) for name in ("support", "query", "mask"))


def test_every_kind_has_options() -> None:
    assert set(DEFAULTS) == set(EPISODE_KINDS)
    assert all(options["way"] == 0 for options in DEFAULTS.values())


@kinds
def test_way_is_that_of_the_tasks_unless_given(kind: str) -> None:
    assert draw(kind).way == 2
    assert draw(kind, {"way": 3}).way == 3
    assert draw(kind, {"way": 3}, way=7).way == 3
    with pytest.raises(OptionError, match="way is -2"):
        draw(kind, {"way": -2})


@both
def test_neighbours_as_queries(kind: str) -> None:
    assert same(draw(kind), naq.naq_episodes(table(kind, 10), way=2, queries=10, count=30))
    assert draw(kind, shot=5).shot == 1, "one shot, whatever the tasks have"


@both
@pytest.mark.parametrize(
    ("given", "k"),
    [
        ({"shot": 3, "queries": 4}, 6),
        ({"queries": 4, "apart": 12}, 12),
        ({"shot": 2, "queries": 6, "apart": 5, "drop_overlap": True}, 7),
        ({"queries": 6, "drop_random": True}, 6),
    ],
)
def test_options_reach_the_draw_and_the_table_is_wide_enough(kind: str, given: dict[str, Any], k: int) -> None:
    found = draw(kind, given)
    assert found.info["table"]["k"] == k
    assert same(found, naq.naq_episodes(table(kind, k), way=2, count=30, **given))


@both
@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"queries": 141},
            "141 queries and 1 shots need 141 other nodes per support, but graph .* has 140; lower them",
        ),
        ({"queries": 140, "shot": 2}, "140 queries and 2 shots need 141 other nodes"),
        ({"apart": 141}, "apart=141 needs 141 other nodes"),
        ({"apart": -1}, "apart is -1"),
        ({"shot": 0}, "shot is 0"),
        ({"queries": 0}, "queries is 0"),
        ({"drop_overlap": True, "drop_random": True}, "drop_overlap and drop_random were both asked for"),
    ],
)
def test_what_the_graph_cannot_give(kind: str, given: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        draw(kind, given)


def test_the_search_reaches_the_table() -> None:
    assert draw("naq-feat").info["table"]["search"] == "exact"
    assert draw("naq-feat", {"search": "approximate"}).info["table"]["search"] == "approximate"


def test_supervised_shot_is_that_of_the_tasks_unless_given() -> None:
    assert draw("supervised", shot=3).shot == 3
    assert draw("supervised", {"shot": 2}, shot=3).shot == 2
    assert draw("supervised").queries == 8


def test_augmented_views_of_the_supports() -> None:
    found = draw("g-umtra", {"views": 2, "drop_edge": 0.5})
    assert same(found, naq.umtra_episodes(GRAPH.num_nodes, way=2, views=2, count=30))
    assert found.info["drop_edge"] == 0.5 and found.info["drop_feature"] == 0.3
    with pytest.raises(OptionError, match=r"drop_feature is 1\.0"):
        draw("g-umtra", {"drop_feature": 1.0})
    with pytest.raises(OptionError, match="has no option 'queries'"):
        draw("g-umtra", {"queries": 3})


@pytest.mark.parametrize("kind", ["naq-feat", "naq-diff", "g-umtra"])
def test_labels_change_nothing(kind: str) -> None:
    assert same(draw(kind), draw(kind, graph=GRAPH.without_labels()))


def test_a_method_without_episodes_takes_no_options() -> None:
    assert episode_options(get_method("smooth"), {}) == {}
    with pytest.raises(OptionError, match="smooth uses no episodes"):
        episode_options(get_method("smooth"), {"queries": 3})
