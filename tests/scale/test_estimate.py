"""The arithmetic of estimates."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from graphs import random_graph
from naq.errors import OptionError
from naq_scale import estimate as model
from naq_scale.cli import estimate_command
from naq_scale.estimate import Rates, Sizes, estimate, probe, sizes_of
from naq_scale.mapped import save_mapped

RATES = Rates(gather=1e9, matmul=1e10, copy=1e9, steps=1e4)
SIZES = Sizes(1_000_000, 20_000_000, 64, 64_000_000, False, True, 100.0)


def seconds(found):
    return {stage.name: stage.seconds for stage in found.stages}


def test_sizes_are_those_of_the_graph(tmp_path):
    graph = random_graph(50, 120, 9)
    held, mapped = sizes_of(graph), sizes_of(save_mapped(tmp_path / "g", graph))
    assert mapped == replace(held, mapped=True)
    degrees = graph.degrees
    assert (held.nodes, held.entries, held.features, held.sparse) == (50, graph.adjacency.nnz, 9, True)
    assert held.feature_entries == graph.features.nnz and held.degree == pytest.approx(degrees.mean())
    assert held.end_degree == pytest.approx(degrees[graph.adjacency.indices].mean())


def test_smoothing_is_the_bytes_it_gathers():
    found = seconds(estimate(SIZES, "naq-plus", rates=RATES))
    gathered = 4 * (20_000_000 + 1_000_000) * 64 * 11  # ten steps and the agreement
    assert found["smoothing"] == pytest.approx(model.FACTORS["smoothing"] * gathered / 1e9)
    half = seconds(estimate(SIZES, "naq-plus", options={"dim": 32, "steps": 21}, rates=RATES))
    assert half["smoothing"] == pytest.approx(found["smoothing"])
    assert "closed form" in found and "closed form" not in seconds(estimate(SIZES, "smooth", rates=RATES))


def test_a_mapped_graph_costs_in_proportion_to_its_size():
    large = replace(SIZES, nodes=10_000_000, entries=200_000_000, feature_entries=640_000_000)
    one, ten = (seconds(estimate(sizes, rates=RATES)) for sizes in (SIZES, large))
    for stage in ("load", "words", "smoothing", "neighbours"):
        assert ten[stage] == pytest.approx(10 * one[stage])
    assert one["closed form"] < ten["closed form"] < 10 * one["closed form"]  # pairs are of a sample
    held, less = (seconds(estimate(replace(sizes, mapped=False), rates=RATES)) for sizes in (large, SIZES))
    assert held["neighbours"] > ten["neighbours"] and held["neighbours"] == pytest.approx(10 * less["neighbours"])


def test_rates_divide_and_the_probe_measures_something():
    one = estimate(SIZES, rates=RATES)
    twice = estimate(SIZES, rates=Rates(*(2 * value for value in vars(RATES).values())))
    assert one.seconds == pytest.approx(2 * twice.seconds) and one.memory == twice.memory
    assert probe() is probe() and all(value > 0 for value in vars(probe()).values())


def test_training_grows_with_episodes_and_hubs_and_is_capped():
    few, many = (seconds(estimate(SIZES, "naq-diff/protonet", episodes=e, rates=RATES)) for e in (100, 1000))
    assert many["training"] == pytest.approx(10 * few["training"]) and many["diffusion table"] == few["diffusion table"]
    hubs = replace(SIZES, end_degree=10_000.0)
    free, capped = (
        seconds(estimate(hubs, f"naq-feat/{learner}", options=options, rates=RATES))["training"]
        for learner, options in (("protonet", {}), ("protonet-capped", {"hub_cap": 20}))
    )
    assert free > 5 * capped
    assert "diffusion table" not in seconds(estimate(SIZES, "naq-feat/protonet", rates=RATES))


def test_text_json_and_mistakes():
    found = estimate(SIZES, rates=RATES)
    lines = str(found).splitlines()
    assert "1,000,000 nodes and 10,000,000 edges (memory-mapped)" in lines[0]
    assert [line.split("  ")[0] for line in lines[2:]] == [*(s.name for s in found.stages), "together"]
    data = found.to_json()
    assert data["seconds"] == pytest.approx(sum(stage["seconds"] for stage in data["stages"]))
    assert data["memory"] == max(stage["memory"] for stage in data["stages"])
    with pytest.raises(OptionError, match="naq-puls"):
        estimate(SIZES, "naq-puls", rates=RATES)
    with pytest.raises(OptionError, match="dims"):
        estimate(SIZES, options={"dims": 3}, rates=RATES)


def test_a_table_that_was_made_before_is_no_stage():
    method = "naq-diff/protonet"
    made, given = (estimate(SIZES, method, episodes=100, rates=RATES, table=table) for table in (False, True))
    rest = [stage for stage in made.stages if stage.name != "diffusion table"]
    assert len(rest) == len(made.stages) - 1 and list(given.stages) == rest
    with pytest.raises(OptionError, match="naq-plus"):
        estimate(SIZES, "naq-plus", rates=RATES, table=True)


def test_parts_are_sized_by_what_their_files_say(tmp_path, capsys):
    rows = pa.array(np.zeros(3 * 400, np.float32))
    nodes = {"id": range(400), "v": pa.FixedSizeListArray.from_arrays(rows, 3), "n": range(400), "text": ["a b"] * 400}
    pq.write_table(pa.table(nodes), tmp_path / "nodes.parquet")
    pq.write_table(pa.table({"source": [0] * 1000, "target": [1] * 1000}), tmp_path / "edges.parquet")
    sizes = model.sizes_of_parts(tmp_path)
    assert (sizes.nodes, sizes.entries, sizes.features, sizes.degree) == (400, 2000, 3 + 1 + 128, 5.0)
    estimate_command(str(tmp_path), as_json=True)
    assert [stage["name"] for stage in json.loads(capsys.readouterr().out)["stages"]] == list(model.PARTS)


def test_an_estimate_of_parts_grows_with_nodes_edges_and_columns():
    one, rates = SIZES, model.MEASURED
    found = model.estimate_parts(one, rates)
    stages = {stage.name: stage for stage in found.stages}
    assert stages["smoothing"].seconds == pytest.approx(1e-9 * model.PARTS["smoothing"][1][4] * 20e6 * 64)
    assert stages["smoothing"].disk == pytest.approx(28e6 + 8 * 64e6 + 8 * 10e6)
    large = replace(one, nodes=10_000_000, entries=200_000_000)
    ten = {stage.name: stage for stage in model.estimate_parts(large, rates).stages}
    for name in ("edges", "features", "smoothing", "neighbours", "predictions"):
        assert ten[name].seconds == pytest.approx(10 * stages[name].seconds)
    assert ten["views"].seconds == stages["views"].seconds  # of a sample
    wide = model.estimate_parts(replace(one, features=5000), rates)  # no more than 128 columns
    assert {stage.name: stage for stage in wide.stages}["features"].seconds == 2 * stages["features"].seconds
    half = replace(rates, gather=rates.gather / 2)
    slow = {stage.name: stage for stage in model.estimate_parts(one, half).stages}
    assert slow["smoothing"].seconds == 2 * stages["smoothing"].seconds and slow["ids"] == stages["ids"]
