"""A seventh learner is one copied file: in the list, in a run, in the generic suite."""

import sys
from pathlib import Path

import pytest

import methods_under_test as suite
import naq
import naq.learners
from naq.learners import protonet
from naq.protocol.methods import get_method, methods


@pytest.fixture
def seventh(tmp_path, monkeypatch):
    """ProtoNet's file under another name, with another name inside, in the folder of learners."""
    text = Path(protonet.__file__).read_text()
    text = text.replace('name = "protonet"', 'name = "seventh"').replace("class ProtoNet", "class Seventh")
    (tmp_path / "seventh.py").write_text(text)
    monkeypatch.setattr(naq.learners, "__path__", [*naq.learners.__path__, str(tmp_path)])
    naq.learners.LEARNERS.discover()
    yield "seventh"
    del naq.learners.LEARNERS._items["seventh"], sys.modules["naq.learners.seventh"]


def test_a_copied_file_is_a_learner(seventh):
    assert {f"{kind}/seventh" for kind in ("naq-feat", "naq-diff", "supervised", "g-umtra")} <= set(methods())
    method = get_method("naq-feat/seventh")
    suite.check_shape_and_seed(method)
    suite.check_no_label_peeking(method)
    result = naq.run(suite.community_graph(), "naq-feat/seventh", way=2, episodes=4, evaluate_every=2,
                     options={"latent": 8}, episode={"queries": 3}, cache=None)  # fmt: skip
    assert result.config.method == "naq-feat/seventh" and 0 <= result.accuracy <= 1
