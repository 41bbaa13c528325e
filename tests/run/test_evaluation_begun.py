"""Validation on a GPU goes on beside the training."""

from __future__ import annotations

import pytest
import torch

from graphs import random_graph
from naq.heads import make_head
from naq.learners.protonet import ProtoNet
from naq.run.evaluate import begun_validation, validation_accuracy
from naq.tasks import sample_tasks


def test_the_cpu_answers_at_once() -> None:
    graph = random_graph(n=120, edges=300)
    tasks, head = sample_tasks(graph, way=3, shot=1, queries=4, count=20), make_head("logistic")
    learner = ProtoNet(graph.without_labels(), way=3, latent=8)
    assert begun_validation(learner, tasks, head) == validation_accuracy(learner, tasks, head)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
def test_on_a_gpu_the_answer_is_of_the_weights_when_it_was_begun() -> None:
    graph = random_graph(n=120, edges=300)
    tasks, head = sample_tasks(graph, way=3, shot=1, queries=4, count=20), make_head("logistic")
    learner = ProtoNet(graph.without_labels(), way=3, latent=8, device="cuda")
    expected = validation_accuracy(learner, tasks, head)
    wait = begun_validation(learner, tasks, head)
    with torch.no_grad():
        for weight in learner.parameters():
            weight.zero_()
    assert callable(wait) and wait() == expected != validation_accuracy(learner, tasks, head)
