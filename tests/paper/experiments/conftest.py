"""A small graph with tasks, on which trainings take a moment."""

import pytest

import methods_under_test as suite
import naq
from naq.io import save_graph, split_for
from naq.tasks import save_task_file


@pytest.fixture(scope="session")
def wide(tmp_path_factory):
    """The path of a graph of twenty communities with few 5-way 1-shot tasks."""
    folder = tmp_path_factory.mktemp("wide")
    graph = suite.community_graph(size=14, classes=20, name="wide")
    place = save_graph(folder / "wide.npz", graph)
    split = split_for(str(place), graph)
    sets = [
        naq.sample_tasks(graph, way=5, shot=1, queries=4, count=count, classes=split.part(part), part=part)
        for part, count in (("valid", 10), ("test", 20))
    ]
    save_task_file(folder / "wide.tasks.npz", sets, split)
    return str(place)
