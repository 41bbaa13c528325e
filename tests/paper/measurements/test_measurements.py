"""What every measurement does: cells hold what is read, bad options and graphs are refused, a record can be traced."""

from __future__ import annotations

import json

import pytest
import torch

from naq.errors import GraphError, OptionError
from naq.run.result import versions
from naq.threads import arithmetic
from naq_paper.cells.cell import Cell
from naq_paper.cells.datasets import identify
from naq_paper.cells.runners import record_of
from naq_paper.measurements import MEASUREMENTS, perform
from naq_paper.measurements.class_similarity import class_similarity_cell
from naq_paper.measurements.overlap import overlap_cell
from naq_paper.measurements.practice import practice_cell
from naq_paper.measurements.tail_map import tail_map_cell
from naq_paper.measurements.times import times_cell
from naq_paper.measurements.train import train_cell

OVERLAP, SIMILARITY, TIMES = (
    (overlap_cell, ("debian",)), (class_similarity_cell, ("debian",)), (times_cell, ("debian",)),
)  # fmt: skip
PRACTICE = practice_cell, ("debian", "gcn")
TRAIN = train_cell, ("debian", "naq-feat/protonet")


@pytest.mark.parametrize(("builder", "options", "word"), [
    (OVERLAP, {"kind": "naq-fet"}, "naq-feat"), (OVERLAP, {"kind": "naq-feat", "fill": "feature"}, "fill"),
    (OVERLAP, {"features": "tf-idf"}, "tfidf"), (OVERLAP, {"alpha": 1.0}, "alpha"),
    (OVERLAP, {"self_loops": 1}, "self_loops"), (OVERLAP, {"way": 1}, "way"), (OVERLAP, {"seed": "x"}, "seed"),
    (SIMILARITY, {"k": 0}, "k is"), (TIMES, {"what": "episode"}, "episodes"), (TIMES, {"solver": "pusch"}, "push"),
    (TIMES, {"device": "gpu"}, "device"), ((practice_cell, ("debian", "gnc")), {"shots": [1]}, "peer"),
    (PRACTICE, {"shots": [0]}, "shots"), (PRACTICE, {"shots": [1], "seed": 1.5}, "seed"),
    ((train_cell, ("debian", "naq-feat/protonets")), {}, "protonet"), (TRAIN, {"options": {"lrr": 1.0}}, "lr"),
    (TRAIN, {"perturbation": {"name": "structure"}}, "structure-noise"), (TRAIN, {"head": "logistics"}, "logistic"),
])  # fmt: skip
def test_options_are_checked_before_anything_is_loaded(builder, options, word):
    with pytest.raises(OptionError, match=word):
        builder[0](*builder[1], **options)


@pytest.mark.parametrize(("cell", "word"), [
    (overlap_cell("structure", kind="naq-feat", count=50), "features"),
    (overlap_cell("structure", fill="feature", count=50), "features"), (class_similarity_cell("unlabelled"), "labels"),
    (class_similarity_cell("structure", kind="naq-diff"), "features"),
    (tail_map_cell("unlabelled", "smooth"), "labels"), (practice_cell("unlabelled", "gcn", shots=[1]), "labels"),
    (times_cell("unlabelled", what="episodes", kind="supervised", count=10), "labels"),
])  # fmt: skip
def test_a_graph_without_what_is_measured_is_refused(compute, cell, word):
    with pytest.raises(GraphError, match=word):
        compute(cell)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device here")
def test_a_device_that_is_not_there_is_refused(compute):
    with pytest.raises(OptionError, match="device"):
        compute(times_cell("communities", device="cuda"))


@pytest.mark.parametrize(("one", "other", "equal"), [
    (overlap_cell("debian", metric="jaccard", features="tfidf"), overlap_cell("debian"), True),
    (overlap_cell("debian", kind="naq-feat", alpha=0.3), overlap_cell("debian", kind="naq-feat"), True),
    (overlap_cell("debian", fill="feature", features="tfidf"), overlap_cell("debian", fill="feature"), False),
    (times_cell("debian", way=7, count=3), times_cell("debian"), True),
    (times_cell("debian", what="episodes", k=7), times_cell("debian", what="episodes"), True),
    (times_cell("debian", k=7), times_cell("debian"), False),
    (train_cell("d", "bgrl", epochs=7), train_cell("d", "bgrl", options={"epochs": 7}), True),
    (train_cell("d", "smooth", epochs=7, episodes=3, patience=1), train_cell("d", "smooth"), True),
])  # fmt: skip
def test_what_is_not_read_is_no_part_of_a_cell(one, other, equal):
    assert (one == other) == equal
    assert one.measurement in MEASUREMENTS and one.config["perturbation"] is None


def test_a_record_can_be_traced_and_computed_again(context):
    """What a store keeps of a cell names everything its number depends on."""
    small = {"way": 2, "episodes": 8, "evaluate_every": 4, "options": {"latent": 8}, "seed": 3, "head": "prototype"}
    noise = {"name": "structure-noise", "share": 0.5}
    cell = train_cell("communities", "supervised/protonet", **small, perturbation=noise)
    record = json.loads(json.dumps(record_of(cell, identify(cell, context.dataset_cache), context).to_json()))
    config, result = record["config"], record["result"]
    assert record["error"] is None and config["perturbation"] == {**noise, "seed": 0}
    assert (config["dataset"], config["seed"], config["head"]) == ("communities", 3, "prototype")
    assert {name: config[name] for name in result["config"]} == result["config"], "the run is the one asked for"
    graph = context.dataset_cache.perturbed("communities", config["perturbation"]).graph
    assert record["identity"]["data"].startswith(context.dataset_cache.graph("communities").hash)
    assert result["data"]["graph"] == graph.hash and result["data"]["tasks"] and record["identity"]["versions"] == ""
    assert record["machine"]["versions"] == result["facts"]["versions"] == versions()
    assert record["machine"]["processor"] and record["finished"].endswith("Z")
    assert result["facts"]["arithmetic"] == arithmetic() and result["perturbation"]["added"] > 0
    assert result["facts"]["valid_accuracy"] == max(result["history"]["valid_accuracy"])
    again = perform(Cell(record["measurement"], config), context)
    assert again["evaluations"] == result["evaluations"]
