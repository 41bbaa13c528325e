"""A small graph of communities with its tasks, shared by the tests of runs."""

import pytest

import methods_under_test as suite


@pytest.fixture(scope="module")
def graph():
    return suite.community_graph(size=24)


@pytest.fixture(scope="module")
def tasks(graph, tmp_path_factory):
    return suite.community_task_file(graph, tmp_path_factory.mktemp("tasks"))
