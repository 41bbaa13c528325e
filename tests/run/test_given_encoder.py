"""A run with an encoder of the user's: configuration, folder, resume, and what is refused."""

import json
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import naq
from encoders_under_test import GAT, PygGCN
from naq.errors import OptionError
from naq.nn.given import describe_encoder
from naq.run import RunConfig


def short(graph, tasks, encoder=GAT, method="naq-feat/protonet", **given):
    given = {"way": 2, "episodes": 40, "evaluate_every": 8, "cache": None, "episode": {"queries": 3}} | given
    return naq.run(graph, method, tasks=tasks, encoder=encoder, **given)


@pytest.mark.parametrize("method", ["naq-feat/protonet", "g-umtra/maml"])
def test_an_encoder_is_trained_described_and_resumed(graph, tasks, tmp_path, method):
    given = {"method": method, "options": {"lr": 0.01}}
    if method == "g-umtra/maml":
        given = {"method": method, "options": {"inner_steps": 2, "meta_batch": 4}, "episode": {}}
    whole = short(graph, tasks, **given)
    config = whole.config.to_json()
    assert config["encoder"]["class"] == "GAT" and "GATv2Conv" in config["encoder"]["layers"]
    assert "latent" not in config["options"] and RunConfig.from_json(config) == whole.config
    assert whole.embedding.shape == (graph.num_nodes, 8) and len(whole.history.steps) == 5

    def stop(phase, facts):
        if phase == "train" and facts["done"] == 16:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        short(graph, tasks, out=tmp_path / "run", listener=stop, **given)
    for other in (partial(GAT, dropout=0.4), PygGCN):
        with pytest.raises(OptionError, match="another encoder"):
            short(graph, tasks, other, out=tmp_path / "run", **given)
    again = short(graph, tasks, out=tmp_path / "run", **given)
    assert np.array_equal(again.embedding, whole.embedding)
    assert json.loads((tmp_path / "run" / "config.json").read_text())["config"] == config
    assert short(graph, tasks, out=tmp_path / "run", **given).accuracy == whole.accuracy


class Plain(PygGCN):
    def forward(self, x, edge_index):
        return self.last(self.first(x, edge_index), edge_index)


class Named(PygGCN):
    """Layers that are chosen by a set, whose order is by chance in every process."""

    def forward(self, x, edge_index):
        for name, layer in self.named_children():
            x = layer(x, edge_index) if name in {"first", "last", "middle", "other"} else x
        return x


def test_another_forward_is_another_encoder():
    kinds = [PygGCN, Plain, Named, type("PygGCN", (Plain,), {"forward": lambda self, x, edges: x}), PygGCN]
    found = [describe_encoder(kind, 5, 0) for kind in kinds]
    assert len({one["code"] for one in found}) == 4 and found[0] == found[-1]
    assert len({one["weights"] for one in found}) == 1


def test_an_encoder_is_the_same_in_another_process():
    code = "import test_given_encoder as t; print(t.describe_encoder(t.Named, 5, 0)['code'])"
    path = ":".join([str(Path(__file__).parent), str(Path(__file__).parents[1]), *sys.path])
    for seed in "12":
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path}
        found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
        assert found.stdout.strip() == describe_encoder(Named, 5, 0)["code"], found.stderr


def test_an_encoder_that_learns_is_better_than_its_initial_weights(graph, tasks):
    trained = short(graph, tasks, PygGCN, options={"lr": 0.01}, episodes=200)
    assert trained.history.loss[-1] < 0.8 * trained.history.loss[0]
    assert trained.accuracy > short(graph, tasks, PygGCN, episodes=1, options={"lr": 1e-9}).accuracy


@pytest.mark.parametrize(
    ("words", "given"),
    [
        ("option latent came with an encoder", {"options": {"latent": 8}}),
        ("smooth is not trained on episodes", {"method": "smooth", "episode": {}}),
        ("gmeta keeps its own", {"method": "naq-feat/gmeta"}),
        ("is made already", {"encoder": PygGCN(56)}),
    ],
)
def test_what_does_not_fit_an_encoder_is_one_sentence(graph, tasks, words, given):
    with pytest.raises(OptionError, match=words):
        short(graph, tasks, **given)


def test_a_configuration_and_an_encoder_come_together(graph, tasks):
    config = short(graph, tasks, episodes=8).config
    with pytest.raises(OptionError, match="encoder was not given"):
        naq.run(graph, config, tasks=tasks)
    with pytest.raises(OptionError, match="the configuration has none"):
        naq.run(graph, RunConfig.resolve("naq-feat/protonet", way=2), tasks=tasks, encoder=GAT)
    again = naq.run(graph, config, tasks=tasks, encoder=GAT, cache=None)
    assert again.config == config
