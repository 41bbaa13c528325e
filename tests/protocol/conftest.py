"""A small graph of communities with its tasks, shared by the tests of runs."""

import pytest

import methods_under_test as suite
import naq
from naq.tasks import save_task_file


@pytest.fixture(scope="module")
def graph():
    return suite.community_graph(size=24)


@pytest.fixture(scope="module")
def tasks(graph, tmp_path_factory):
    sets = [
        naq.sample_tasks(graph, way=2, shot=shot, queries=4, count=count, classes=suite.SPLIT.part(part), part=part)
        for shot in (1, 3)
        for part, count in (("valid", 20), ("test", 40))
    ]
    return save_task_file(tmp_path_factory.mktemp("tasks") / "communities.tasks.npz", sets, suite.SPLIT)
