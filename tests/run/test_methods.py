"""The generic suite over the registry, and the registry itself."""

import pytest
import torch

import methods_under_test as suite
from label_peeking import check_no_label_peeking
from naq.errors import OptionError
from naq.learners import register_learner
from naq.learners.protonet import ProtoNet
from naq.methods import get_method, methods

ALL = list(methods().values())
each = pytest.mark.parametrize("method", ALL, ids=[m.name for m in ALL])


@each
def test_shape_and_seed(method):
    suite.check_shape_and_seed(method)


@each
def test_relabelled_nodes_give_the_same_result(method):
    suite.check_relabelling(method)


@each
def test_no_access_to_labels(method, tmp_path):
    check_no_label_peeking(method, tmp_path)


@each
def test_tiny_and_edgeless_graphs(method):
    suite.check_small_graphs(method)


@each
def test_save_and_load(method, tmp_path):
    suite.check_save_and_load(method, tmp_path)


@each
def test_encode_equals_encode_all(method):
    suite.check_encode(method)


@each
def test_learners_that_solve_tasks_themselves(method):
    suite.check_solves(method)


@each
def test_resume_gives_the_same_weights(method, tmp_path):
    suite.check_resume(method, tmp_path)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
@each
def test_cpu_and_cuda_agree(method):
    suite.check_devices(method)


def test_names():
    assert {"naq-feat/protonet", "naq-diff/protonet", "supervised/protonet", "smooth", "untrained"} <= set(methods())
    assert get_method("supervised/protonet").reads_base_labels
    assert not get_method("naq-diff/protonet").reads_base_labels


def test_an_unknown_name_lists_the_nearest():
    with pytest.raises(OptionError, match="did you mean naq-feat/protonet"):
        get_method("naq-feat/protonett")


def test_a_name_is_registered_once():
    class Other(ProtoNet):
        pass

    with pytest.raises(OptionError, match="registered already"):
        register_learner(Other)
    assert register_learner(ProtoNet) is ProtoNet, "the same one again is no other"


@each
def test_unknown_options_are_refused(method):
    model = method.model
    kwargs = {"way": 2} if method.learner else {}
    with pytest.raises(OptionError, match="has no option 'colour'"):
        model(suite.community_graph().without_labels(), colour=1, **kwargs)
