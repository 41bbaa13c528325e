"""Profiles: a cell under the paper's profile has the settings of the specs, number by number."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fake_records import finds, nothing
from naq.methods import methods
from naq.run.episodes import DEFAULTS, SWITCHES
from naq_paper.experiments.experiment import expand
from naq_paper.experiments.profiles import PROFILES
from naq_paper.experiments.request import BUDGETS, Request
from naq_paper.experiments.seed_groups import seed_group, training, training_note

PAPER, OURS = PROFILES["paper"], PROFILES["default"]
FACTS = {"classes": 77, "most_classes": 20}
CITATION, PRODUCTS, ARXIV = "cora-full", "amazon-electronics", "ogbn-arxiv"
EVERY = (CITATION, PRODUCTS, ARXIV, "debian")

OTHERS = (CITATION, PRODUCTS, "debian")
# fmt: off
# File of the specs, method, datasets, options. GLITTER differs on ogbn-arxiv, BGRL and SUGRL on product graphs.
SPECIFIED = [
    ("03-protonet.md", "naq-feat/protonet", EVERY, {"latent": 256, "lr": 1e-4}),
    ("04-maml.md", "naq-diff/maml", EVERY, {"latent": 64, "lr": 0.003, "inner_lr": 0.01, "inner_steps": 10,
     "meta_batch": 16, "order": "first"}),
    ("05-gmeta.md", "naq-feat/gmeta", EVERY, {"latent": 64, "lr": 0.001, "inner_lr": 0.01, "inner_steps": 10,
     "sample_nodes": 1000, "meta_batch": 16}),
    ("06-tent.md", "supervised/tent", EVERY, {"latent": 64, "weight_decay": 5e-4, "encoder": "gcn2",
     "modulation": "full", "max_nodes": 0, "outputs": 77}),
    ("06-tent.md", "naq-feat/tent", EVERY, {"modulation": "full", "outputs": 0}),
    ("07-glitter.md", "naq-diff/glitter", OTHERS, {"hidden": 16, "lr": 0.005, "weight_decay": 5e-4, "inner_lr":
     0.1, "inner_steps": 0, "dropout": 0.5, "k_keep": 0, "scale": "minmax"}),
    ("07-glitter.md", "supervised/glitter", (ARXIV,), {"dropout": 0.0, "scale": "none", "inner_steps": 40, "lr":
     0.005}),
    ("08-cosmic.md", "naq-feat/cosmic", EVERY, {"hidden": 1024, "lr": 0.001, "mode": "release", "use_queries":
     False}),
    ("09-tlp-bgrl.md", "bgrl", (CITATION, ARXIV, "debian"), {"hidden": 512, "latent": 256, "lr": 1e-5,
     "momentum": 0.99, "drop_edge1": 0.3, "drop_feature1": 0.3, "drop_edge2": 0.2, "drop_feature2": 0.4}),
    ("09-tlp-bgrl.md", "bgrl", (PRODUCTS,), {"lr": 5e-4, "drop_edge1": 0.5, "drop_feature1": 0.2, "drop_edge2":
     0.4, "drop_feature2": 0.1, "latent": 256}),
    ("10-tlp-sugrl.md", "sugrl", (CITATION, "debian"), {"lr": 0.005, "w1": 10.0, "w2": 10.0, "w3": 1.0, "m1":
     0.8, "m2": 0.2, "negatives": 4, "hidden": 512, "latent": 256, "dropout": 0.3, "weight_decay": 5e-5,
     "l3_reduction": "sum", "ogb": False}),
    ("10-tlp-sugrl.md", "sugrl", (PRODUCTS,), {"lr": 0.01, "w1": 100.0, "w2": 100.0, "w3": 2.0, "m1": 0.4, "m2":
     0.6, "negatives": 5, "dropout": 0.1, "weight_decay": 1e-4, "l3_reduction": "sum", "ogb": False}),
    ("10-tlp-sugrl.md", "sugrl", (ARXIV, "ogbn-products"), {"lr": 0.01, "w1": 10.0, "w2": 10.0, "w3": 1.0, "m1":
     0.9, "m2": 0.9, "negatives": 1, "dropout": 0.2, "weight_decay": 5e-5, "l3_reduction": "mean", "ogb":
     True}),
    ("11-tlp-afgrl.md", "afgrl", EVERY, {"layers": 2, "hidden": 512, "latent": 256, "predictor": 512, "lr":
     0.001, "k": 4, "clusters": 100, "runs": 5, "refresh": 1, "bn_momentum": 0.01}),
    ("12-vnt.md", "vnt", EVERY, {"latent": 32, "layers": 2, "heads": 2, "context": 7, "wl": "one", "roles": 100,
     "dropout": 0.5, "attention_dropout": 0.3, "lr": 0.001, "weight_decay": 5e-4, "prompts": 10, "steps": 100,
     "tune_lr": 0.01, "objective": "both", "deep": False}),
    ("13-gpn-cola-teg.md", "supervised/gpn", EVERY, {"latent": 64, "lr": 0.005, "weight_decay": 5e-4, "dropout":
     0.5}),
    ("13-gpn-cola-teg.md", "naq-feat/teg", EVERY, {"latent": 64, "lr": 0.001, "weight_decay": 5e-4, "dropout":
     0.5, "gamma": 0.5}),
    ("13-gpn-cola-teg.md", "cola", (PRODUCTS, ARXIV, "debian"), {"hidden": 256, "latent": 128, "lr": 5e-4,
     "weight_decay": 1e-5, "dropout": 0.1, "temperature": 1.0}),
    ("13-gpn-cola-teg.md", "cola", (CITATION,), {"temperature": 0.7, "drop_feature1": 0.2, "drop_feature2": 0.1,
     "drop_feature3": 0.1, "drop_edge1": 0.3, "drop_edge2": 0.2, "drop_edge3": 0.2}),
]
# The same for episodes; the released NaQ-Diff has no self-loops, both ogbn graphs Euclidean distance.
EPISODES = [
    ("01-episodes.md", "naq-feat/protonet", OTHERS, {"metric": "cosine", "fill": "lowest"}),
    ("01-episodes.md", "naq-feat/tent", EVERY, {"shot": 1, "queries": 10, "way": 0}),
    ("01-episodes.md", "naq-feat/protonet", (ARXIV, "ogbn-products"), {"metric": "euclidean", "fill":
     "lowest"}),
    ("01-episodes.md", "naq-diff/protonet", EVERY, {"alpha": 0.1, "self_loops": False, "fill": "lowest", "shot":
     1, "queries": 10}),
    ("00-conventions.md", "supervised/maml", EVERY, {"shot": 0, "queries": 8}),
    ("07-glitter.md", "supervised/glitter", EVERY, {"shot": 0, "queries": 1}),
    ("07-glitter.md", "naq-feat/glitter", EVERY, {"shot": 1, "queries": 10}),
]
# fmt: on


def request(profile="paper", **more):
    return Request("methods", EVERY, profile=profile, facts=dict.fromkeys(EVERY, FACTS), **more)


def cell(method, dataset, profile="paper", **more):
    return training(request(profile, **more), dataset, method, seed=0, options={}).config


@pytest.mark.parametrize(("spec", "method", "datasets", "options"), SPECIFIED)
def test_a_paper_cell_has_the_options_of_the_specs(spec, method, datasets, options):
    for dataset in datasets:
        found = cell(method, dataset)
        assert {name: found["options"][name] for name in options} == options, (spec, dataset)
        assert found["features"] == "raw"


@pytest.mark.parametrize(("spec", "method", "datasets", "episode"), EPISODES)
def test_a_paper_cell_has_the_episodes_of_the_specs(spec, method, datasets, episode):
    for dataset in datasets:
        found = cell(method, dataset)["episode"]
        assert {name: found[name] for name in episode} == episode, (spec, dataset)


def test_every_method_of_the_paper_is_specified():
    learners = {name.rpartition("/")[2] for _, name, _, _ in SPECIFIED}
    assert learners == {name.rpartition("/")[2] for name in methods()} - {
        "smooth", "naq-plus", "untrained", "protonet-capped"
    }  # fmt: skip
    assert set(PAPER.models) == learners


def test_the_profile_names_options_that_there_are():
    """Options are written into a cell only if its method has them: a wrong name is an error here."""
    for name in methods():
        for dataset in (*EVERY, "amazon-clothing", "ogbn-products", "dblp"):
            cell(name, dataset)
    for of in (PAPER.episodes, *PAPER.episodes_on.values(), *PAPER.episodes_of.values()):
        assert all(set(options) <= set(DEFAULTS[kind]) for kind, options in of.items())


def test_a_part_of_a_graph_has_the_settings_of_the_whole():
    for method in ("sugrl", "bgrl", "naq-diff/protonet"):
        assert cell(method, "amazon-clothing-half")["options"] == cell(method, "amazon-clothing")["options"]
    assert cell("sugrl", "amazon-clothing-half")["options"] != cell("sugrl", CITATION)["options"]


def test_our_own_profile_sets_nothing():
    for name, known in methods().items():
        found = cell(name, CITATION, "default")
        changed = {option for option, value in found["options"].items() if known.defaults[option] != value}
        assert changed <= {"memory", "epochs"}, name  # what makes results repeatable, and the budget
        if known.episodes is not None and "cosmic" not in name:
            own = {name: value for name, value in DEFAULTS[known.episodes].items() if name not in SWITCHES}
            assert found["episode"] == own


def test_what_is_given_comes_on_top_of_the_profile_and_levels_of_an_analysis_on_top_of_that():
    more = {"options": {"protonet": {"lr": 0.5}}, "episode": {"queries": 4, "self_loops": True, "views": 3}}
    found = cell("naq-diff/protonet", CITATION, **more)
    assert found["options"] == {"latent": 256, "lr": 0.5}
    assert found["episode"]["queries"] == 4 and found["episode"]["self_loops"] is True
    assert found["episode"]["fill"] == "lowest" and "views" not in found["episode"]
    level = training(request(**more), CITATION, "naq-diff/protonet", seed=0, options={}, episode={"queries": 7})
    assert level.config["episode"]["queries"] == 7
    assert cell("g-umtra/protonet", CITATION, **more)["episode"]["views"] == 3


def test_the_grid_of_the_paper_is_tried_under_its_profile_and_ours_elsewhere():
    """paper.txt, table "Tuned hyperparameters and their range by baselines", and the width in the text below it."""
    sizes = {"protonet": 14, "tent": 14, "maml": 100, "gmeta": 100, "glitter": 1, "cosmic": 1}
    for learner, size in sizes.items():
        group = seed_group(request(tune=True), CITATION, f"naq-feat/{learner}")
        assert len(group.candidates) == size and len(group.tried) == (size if size > 1 else 0)
        assert len({cell.text for _, cell in group.candidates}) == size
    for embedder in ("bgrl", "sugrl", "afgrl"):
        group = seed_group(request(tune=True), CITATION, embedder)
        assert [setting["lr"] for setting, _ in group.candidates] == [1e-6, 1e-5, 5e-5, 1e-4, 5e-4, 1e-3]
    maml = PAPER.tried("maml")
    assert {one["inner_lr"] for one in maml} == {0.01, 0.05, 0.1, 0.3, 0.5}
    assert {one["inner_steps"] for one in maml} == {1, 2, 5, 10, 20} and {one["lr"] for one in maml} == {1e-3, 3e-3}
    assert all({one["latent"] for one in PAPER.tried(name)} == {64, 256} for name, size in sizes.items() if size > 1)
    assert {one["lr"] for one in PAPER.tried("tent")} == {5e-5, 1e-4, 3e-4, 5e-4, 1e-3, 3e-3, 5e-3}
    assert {key for one in PAPER.tried("vnt") for key in one} == {"prompts", "tune_lr", "steps"}
    assert {key for one in OURS.tried("vnt") for key in one} == {"prompts", "tune_lr", "steps"}
    ours = seed_group(request("default", tune=True), CITATION, "naq-feat/maml")
    assert [setting for setting, _ in ours.candidates] == list(OURS.tried("maml"))
    assert PAPER.tried("naq-feat/teg") == OURS.tried("teg"), "not in the paper's table"


@pytest.mark.parametrize("profile", PROFILES)
def test_cosmic_on_both_kinds_of_naq_is_one_training(profile):
    def cells(kind, given=None, **more):
        asked = request(profile, options={"cosmic": given or {}})
        return seed_group(asked, CITATION, f"{kind}/cosmic", **more).cells(nothing)

    assert cells("naq-feat") == cells("naq-diff")
    assert cells("naq-feat") == cells("naq-diff", episode={"queries": 3}), "queries are not read"
    assert cells("naq-feat") != cells("naq-diff", episode={"way": 3})
    for supports in ({"shot": 3}, {"apart": 5}):
        assert cells("naq-feat", episode=supports) != cells("naq-diff", episode=supports), "supports are neighbours"
    reading = {"mode": "intended", "use_queries": True}
    assert cells("naq-feat", reading) != cells("naq-diff", reading)
    assert cells("supervised") != cells("naq-feat")
    alike = [f"{kind}/protonet" for kind in ("naq-feat", "naq-diff")]
    first, second = (seed_group(request(profile), CITATION, method).cells(nothing) for method in alike)
    assert first != second


def test_the_note_of_a_table_says_what_is_one_training():
    rows = ("naq-feat/cosmic", "naq-diff/cosmic", "naq-feat/protonet", "naq-diff/protonet", "bgrl")
    note = training_note(request(), rows)
    assert "Profile: paper." in note and note.count("are one training") == 1 and "COSMIC ignores queries" in note
    assert "one training" not in training_note(request(), rows[2:])
    assert "one training" not in training_note(request(), rows[:1])
    own = {"cosmic": {"mode": "intended", "use_queries": True}}
    assert "one training" not in training_note(request(options=own), rows)
    assert "one training" in training_note(request(tune=True), rows)
    assert "one training" not in training_note(request("default", tune=True), rows), "candidates use queries"
    assert "tasks without labels" in training_note(request(select="clusters"), rows)


def test_a_budget_says_how_long_and_a_profile_how():
    paper = cell("bgrl", CITATION, budget="paper")
    assert paper["options"]["epochs"] == BUDGETS["paper"].epochs["bgrl"] == 10_000 and paper["patience"] == 50
    assert paper["options"]["lr"] == cell("bgrl", CITATION, budget="quick")["options"]["lr"] == 1e-5
    ours = cell("naq-feat/protonet", CITATION, "default", budget="paper")
    assert ours["episodes"] == 16_000 and ours["patience"] == 0 and ours["episode"]["fill"] == "none"


@pytest.mark.parametrize("profile", PROFILES)
def test_the_paper_stands_beside_the_rows_that_are_computed_as_it_did(profile):
    """01-episodes.md: the published diffusion has no self-loops and completes short rows by the lowest ids."""
    asked = replace(request(profile), experiment="class-similarity", datasets=(PRODUCTS,))
    [study] = expand(asked, finds())
    configs = {row: study.groups[row].cells(nothing)[0].config for row in study.groups}
    assert configs["NaQ-Diff"]["self_loops"] is False and configs["NaQ-Diff"]["fill"] == "lowest"
    assert configs["NaQ-Feat"]["fill"] == "lowest" and configs["NaQ-Feat"]["features"] == "raw"
    assert configs["NaQ-Diff, rows stay short"]["fill"] == "none"
    table = study.figures()[-1]
    beside = {row[0]: row[1].paper for row in table.rows}
    assert beside["NaQ-Diff"] is not None and beside["NaQ-Feat"] is not None
    assert beside["NaQ-Diff, rows stay short"] is None


@pytest.mark.parametrize("profile", ["default", "paper"])
def test_class_similarity_is_that_of_the_released_tables_whatever_the_profile(profile):
    def table(dataset, row):
        asked = Request("class-similarity", (dataset,), profile=profile, episode={"alpha": 0.2, "queries": 3})
        [study] = expand(asked, nothing)
        return study.groups[row].cells(nothing)[0].config.items()

    assert {"alpha": 0.1, "self_loops": False, "fill": "lowest"}.items() <= table(CITATION, "NaQ-Diff")
    assert {"features": "raw", "metric": "euclidean", "fill": "lowest"}.items() <= table(ARXIV, "NaQ-Feat")
    assert {"self_loops": True, "fill": "none"}.items() <= table(CITATION, "NaQ-Diff, rows stay short")
