"""``naq reproduce beyond``: what it trains, what it compares, and what it may say."""

from __future__ import annotations

import numpy as np
import pytest

import fake_records
from fake_records import finds, nothing, record_for, train_result
from naq.methods import get_method
from naq_paper.cells.cell import canonical
from naq_paper.cells.runners import Setup, make_runner
from naq_paper.cells.store import Store
from naq_paper.experiments.accuracy_table import BALANCED, INDUCTIVE, UNBALANCED
from naq_paper.experiments.analyses.beyond_accuracy import OLDER, TOGETHER, Target, figures
from naq_paper.experiments.analyses.variants import CHANGES, gain_words, way_of
from naq_paper.experiments.datasets import choose_datasets, experiments_of, make_requests
from naq_paper.experiments.experiment import EXPERIMENTS, StoredRecords, cells_of, compute, expand
from naq_paper.experiments.folder import Requests
from naq_paper.experiments.names import full_name
from naq_paper.experiments.request import Request
from naq_paper.experiments.views import Missing, Number, TableView, TextView
from naq_paper.report.collect import page_of
from naq_paper.statistics import difference, family, score

NAMES = experiments_of("beyond")
FACTS = {"debian": {"most_classes": 12}, "cora": {"most_classes": 2}}
HEADS = {
    "logistic": 0.0,
    "prototype": -0.02,
    "transductive": 0.03,
    "em": 0.02,
    "balanced": 0.05,
    "prototype/dirichlet": -0.02,
    "transductive/dirichlet": 0.0,
    "em/dirichlet": 0.01,
    "balanced/dirichlet": -0.05,
}


@pytest.fixture
def every_head(monkeypatch):
    """Made-up results under every head, balanced and not."""
    monkeypatch.setattr(fake_records, "HEADS", HEADS)
    monkeypatch.setattr(fake_records, "_made", {})


def study_of(name, find=nothing, dataset="debian", **given):
    [study] = expand(Request(name, (dataset,), facts=FACTS, **given), find)
    return study


def with_means(**means):
    """A ``find`` with these accuracies by method (``_`` for ``-`` and ``/``)."""

    def find(cell):
        name = cell.config["method"].replace("-", "_").replace("/", "_")
        return record_for(cell, train_result(cell, mean=means.get(name)))

    return find


def table_of(views, name):
    return next(view for view in views if isinstance(view, TableView) and view.name == name)


def said(views):
    return [sentence for view in views if isinstance(view, TextView) for sentence in view.sentences]


def test_one_name_gathers_all_of_it():
    assert NAMES == ["beyond-accuracy", "beyond-ablation", "beyond-refinement", "beyond-inputs", "beyond-robustness"]
    assert {EXPERIMENTS[name].group for name in NAMES} == {"beyond"}
    assert set(NAMES) <= set(experiments_of("all")) and len({EXPERIMENTS[name].datasets for name in NAMES}) == 1


def test_the_bundled_graph_is_taken_along_with_a_folder(tmp_path):
    (tmp_path / "cora.npz").touch()
    found = choose_datasets(EXPERIMENTS["beyond-accuracy"](), (), tmp_path, [].append)
    assert found == {"debian": "", "cora": str(tmp_path / "cora.npz")}


def test_tasks_have_as_many_classes_as_the_dataset_allows():
    request = Request("beyond-accuracy", ("debian", "cora"), facts=FACTS)
    assert way_of(request, "debian") == 5 and way_of(request, "cora") == 2 and way_of(request, "unknown") == 5
    assert way_of(Request("beyond-accuracy", ("debian",), facts=FACTS, ways=(3,)), "debian") == 3
    for name in NAMES:
        for dataset, way in (("debian", 5), ("cora", 2)):
            assert {cell.config["way"] for cell in study_of(name, dataset=dataset).cells()} == {way}, name


def test_trainings_are_shared():
    accuracy, methods = (set(study_of(name, seeds=2).cells()) for name in ("beyond-accuracy", "methods"))
    own = {cell.config["method"] for cell in accuracy - methods}
    assert own == {"naq-plus/sugrl", "smooth"}
    assert all(not c.config["options"]["unit_first"] for c in accuracy - methods if c.config["method"] == "smooth")
    for name in ("beyond-ablation", "beyond-refinement", "beyond-inputs", "beyond-robustness"):
        plain = [
            cell
            for cell in study_of(name, seeds=2).cells()
            if cell.config["perturbation"] is None and "refine" not in cell.config
        ]
        assert set(plain) - accuracy <= {c for c in plain if c.config["method"] == "naq-plus" and name.endswith("ion")}


def test_refined_and_plain_vectors_are_of_the_same_training():
    study = study_of("beyond-refinement", seeds=2)
    refined = [row for row, shot in study.groups if row.endswith(", refined") and shot == 1]
    assert len(refined) == 4
    for row in refined:
        ours = study.groups[row, 1].cells(nothing)
        plain = study.groups[row.removesuffix(", refined"), 1].cells(nothing)
        assert [canonical({**cell.config, "refine": True}) for cell in plain] == [
            canonical(cell.config) for cell in ours
        ]
    named = study_of(
        "beyond-refinement", methods=("supervised/protonet", "naq-diff/glitter", "smooth", "naq-diff/maml")
    )
    assert list(dict.fromkeys(row for row, _ in named.groups)) == [
        "naq-plus (no training)",
        "MAML (NaQ-Diff)",
        "MAML (NaQ-Diff), refined",
    ]


def test_every_change_of_the_ablation_changes_one_option():
    defaults = get_method("naq-plus").defaults
    for options in CHANGES.values():
        [(name, value)] = options.items()
        assert value != defaults[name]
    cells = study_of("beyond-ablation", seeds=5).cells()
    assert {cell.config["seed"] for cell in cells} == {0}, "nothing is trained"
    assert len(cells) == 2 * (2 + len(CHANGES)), "one and five shots"


def test_inputs_are_the_vectors_of_the_closed_form():
    study = study_of("beyond-inputs", seeds=2)
    replaced = [cell for cell in study.cells() if cell.config["perturbation"]]
    assert {cell.config["perturbation"]["name"] for cell in replaced} == {"naq-plus-features"}
    assert {cell.config["perturbation"]["seed"] for cell in replaced} == {0}, "all trainings read the same vectors"
    assert {cell.config["method"] for cell in replaced} == {"naq-feat/protonet", "naq-feat/cosmic"}


def scores(plus=0.8, smooth=0.7, trained=0.75, seeds=2):
    random = np.random.default_rng(0)
    hard = random.normal(0, 0.05, 400)

    def made(method, mean):
        count = seeds if method == "bgrl" else 1
        return score(mean + hard + random.normal(0, 0.02, (count, 400)), "tasks", trained=method == "bgrl")

    return {
        (method, shot, head): made(method, mean + HEADS[head])
        for method, mean in (("naq-plus", plus), ("smooth", smooth), ("bgrl", trained))
        for shot in (1, 5)
        for head in HEADS
    }


def test_figures_are_against_the_best_other_method_under_the_same_head():
    made = figures("debian", scores(), ["smooth", "bgrl"], (1, 5))
    inductive = [one for one in made if one.setting == INDUCTIVE]
    assert [(one.where, one.against, one.target.words) for one in inductive] == [
        ("1-shot, logistic", full_name("bgrl"), "+3"),
        ("1-shot, prototype", full_name("bgrl"), "+3"),
        ("5-shot, logistic", full_name("bgrl"), "+2"),
        ("5-shot, prototype", full_name("bgrl"), "+2"),
    ]
    assert all(one.test.difference.mean == pytest.approx(0.05, abs=0.005) for one in inductive)
    balanced = {one.where: one for one in made if one.setting == BALANCED}
    assert set(balanced) == {"1-shot, transductive", "1-shot, em", "1-shot, balanced"}
    assert balanced["1-shot, em"].against == "smooth (no training), em" and balanced["1-shot, em"].target.words == "+5"
    assert balanced["1-shot, em"].test.difference.mean == pytest.approx(0.1, abs=0.005)
    unbalanced = {one.where: one for one in made if one.setting == UNBALANCED}
    assert set(unbalanced) == {"1-shot, transductive", "1-shot, em"}, "balanced is told what is not so there"
    assert unbalanced["1-shot, em"].test.difference.mean == pytest.approx(0.03, abs=0.005)
    assert not unbalanced["1-shot, em"].target.met(unbalanced["1-shot, em"].test), "3 points of 4"
    assert unbalanced["1-shot, em"].test.significant


def test_heads_of_a_setting_are_one_family_as_the_note_says():
    found = scores()
    pairs = {head: (found["naq-plus", 1, head], found["smooth", 1, head]) for head in TOGETHER}
    made = figures("debian", found, ["smooth"], (1,))
    p = {one.where.split(", ")[1]: one.test.p for one in made if one.setting == BALANCED}
    assert p == {head: test.p for head, test in family(pairs).items()}
    assert p != {head: family({head: pair})[head].p for head, pair in pairs.items()}, "corrected for several"


def test_where_the_baseline_is_high_no_gain_is_asked_for():
    words = {
        trained: [one.target.words for one in figures("cora", scores(trained=trained), ["bgrl"], (1, 5))][:4]
        for trained in (0.9, 0.99)
    }
    assert words[0.9] == ["+1", "+1", "not below", "not below"] and set(words[0.99]) == {"not below"}
    assert [one.target.words for one in figures("cora", scores(), ["bgrl"], (1, 5))][4:] == ["above"] * 5


@pytest.mark.parametrize(
    ("gain", "least", "met"),
    [(0.05, 3.0, True), (0.02, 3.0, False), (0.02, 0.0, True), (0.0, 0.0, False), (-0.02, None, False), (0.0, None, True)],
)  # fmt: skip
def test_a_target_is_met_by_what_is_significant_and_large_enough(gain, least, met):
    random = np.random.default_rng(1)
    noise = random.normal(0, 0.05, 500)
    apart = random.permutation(noise) / 9
    apart -= apart.mean()
    ours, theirs = (score([0.7 + added + noise], "t", trained=False) for added in (gain + apart, 0))
    [test] = family({"x": (ours, theirs)}).values()
    assert Target(least).met(test) is met


def test_one_training_meets_no_target():
    one = scores(seeds=1)
    made = figures("debian", one, ["bgrl"], (1,))
    assert [figure.target.met(figure.test) for figure in made[:2]] == [None, None]
    assert "one seed" in made[0].sentence and gain_words(made[0].test).endswith(", one seed")


def test_labels_and_variants_of_the_closed_form_are_no_rivals(every_head):
    find = with_means(naq_plus=0.6, smooth=0.5, bgrl=0.55, naq_plus_sugrl=0.9, supervised_protonet=0.9)
    methods = ("supervised/protonet", "naq-plus/sugrl", "bgrl")
    views = study_of("beyond-accuracy", find, seeds=3, methods=methods).views()
    table = table_of(views, "beyond-accuracy-reached-debian")
    assert {row[2] for row in table.rows if row[0] == INDUCTIVE} == {"TLP-BGRL"}
    assert {row[0] for row in table.rows} == {INDUCTIVE, BALANCED, UNBALANCED}
    assert all(row[6] == "yes" for row in table.rows if row[0] == INDUCTIVE), "5 points are more than 3 and 2"
    first = table_of(views, "beyond-accuracy-debian")
    assert OLDER in {row[0] for row in first.rows}
    assert any(s.startswith("Inductive, 1-shot, logistic, naq-plus against TLP-BGRL: above by") for s in said(views))


def test_a_table_without_the_new_heads_has_the_inductive_figures(monkeypatch):
    monkeypatch.setattr(fake_records, "HEADS", {"logistic": 0.0, "prototype": -0.02})
    monkeypatch.setattr(fake_records, "_made", {})
    views = study_of("beyond-accuracy", finds(), seeds=2, methods=("bgrl",)).views()
    assert {row[0] for row in table_of(views, "beyond-accuracy-reached-debian").rows} == {INDUCTIVE}


def test_gains_of_a_table_are_those_of_its_accuracies():
    views = study_of("beyond-refinement", finds(), seeds=3).views()
    table = table_of(views, "beyond-refinement-debian")
    rows = {row[0]: row for row in table.rows}
    plain, refined = rows["TLP-BGRL"], rows["TLP-BGRL, refined"]
    assert table.columns[1:4] == ["accuracy, %", *EXPERIMENTS["beyond-refinement"].gains]
    for place in (1, 4, 7, 10):
        assert isinstance(refined[place], Number) and plain[place + 1] == "–"
        assert float(refined[place + 1].split()[0]) == pytest.approx(
            refined[place].value - plain[place].value, abs=0.06
        )
        closed = rows["naq-plus (no training)"][place].value
        assert float(refined[place + 2].split()[0]) == pytest.approx(refined[place].value - closed, abs=0.06)
    assert "Holm" in table.note
    assert any(s.startswith("TLP-BGRL, refined, against TLP-BGRL: 1-shot ") and "; 5-shot " in s for s in said(views))


@pytest.mark.parametrize("name", ["beyond-ablation", "beyond-refinement", "beyond-inputs"])
def test_queries_together_stand_in_a_table_of_their_own(name, every_head):
    views = study_of(name, finds(), seeds=2).views()
    first, together = table_of(views, f"{name}-debian"), table_of(views, f"{name}-transductive-debian")
    assert [group for group, _ in first.groups[1:]] == [
        f"{s}-shot, {h}" for s in (1, 5) for h in ("logistic", "prototype")
    ]
    assert [group for group, _ in together.groups[1:]] == [
        f"1-shot, {head}"
        for head in (
            "transductive",
            "em",
            "balanced",
            *(f"{h}, Dirichlet(2)" for h in ("prototype", "transductive", "em")),
        )
    ]
    assert "balanced knows" in together.note and "balanced knows" not in first.note
    assert all(
        isinstance(entry, Number) for row in together.rows for entry in row[1 :: 1 + len(EXPERIMENTS[name].gains)]
    )


def test_what_is_not_finished_has_no_gain():
    gone = lambda cell: cell.config["method"] == "bgrl" and "refine" not in cell.config  # noqa: E731
    views = study_of("beyond-refinement", finds(skip=gone), seeds=2).views()
    rows = {row[0]: row for row in table_of(views, "beyond-refinement-debian").rows}
    assert isinstance(rows["TLP-BGRL"][1], Missing) and rows["TLP-BGRL, refined"][2] == "–"
    assert not any("against TLP-BGRL:" in sentence for sentence in said(views))


def test_draws_of_noise_are_the_same_for_all_methods():
    study = study_of("beyond-robustness", finds(), seeds=3)
    plus, smooth = (study.score((full_name(name), "feature noise 0.3")) for name in ("naq-plus", "smooth"))
    assert plus.seeds == smooth.seeds == 3 and plus.trained and difference(plus, smooth).paired
    pareto, clean = (study.score((full_name("naq-plus"), level)) for level in ("Pareto", "clean"))
    assert not difference(pareto, clean).paired, "other nodes, other tasks"
    spoken = said(study.views())
    assert any(s.startswith("smooth (no training) loses") and "from clean to Pareto" in s for s in spoken)
    assert any(s.startswith("naq-plus (no training) on the graph edge noise 0.3, against ") for s in spoken)


def test_one_draw_shows_nothing_even_without_training():
    spoken = said(study_of("beyond-robustness", finds(), seeds=1).views())
    noisy = [s for s in spoken if "clean" not in s or "from clean to" in s]
    assert len(noisy) > 10 and all("one seed" in s and "p < 0.05" not in s for s in noisy)


def test_all_of_it_is_computed_and_shown(wide, tmp_path):
    with make_runner("local") as runner:
        dataset_cache = runner.dataset_cache(Setup())
        settings = {
            "budget": "quick",
            "episodes": 4,
            "shots": (1,),
            "methods": ("naq-feat/protonet", "naq-plus/sugrl"),
            "options": {"protonet": {"latent": 8}, "sugrl": {"hidden": 8}},
        }
        requests = make_requests(["beyond"], dataset_cache, given=[wide], **settings)
        store, setup = Store(tmp_path / "results"), Setup(dataset_cache.paths, None)
        find = StoredRecords(store, dataset_cache)
        studies = [study for request in requests for study in expand(request, find)]
        outcome = compute(studies, find, runner, setup)
    assert outcome.complete and set(outcome.done) == set(cells_of(studies))
    Requests(requests, dict(dataset_cache.paths)).save(store.folder)
    page = page_of(store.folder)
    assert len(page.sections) == len(NAMES) and not any(section.missing or section.failed for section in page.sections)
    views = [view for section in page.sections for view in section.views]
    ablation = {row[0]: row for row in table_of(views, "beyond-ablation-wide").rows}
    assert ablation["no smoothing"][1].value != ablation["naq-plus (no training)"][1].value
    replaced = [cell for cell in outcome.done if (cell.config["perturbation"] or {}).get("name") == "naq-plus-features"]
    assert len(replaced) == 2, "ProtoNet and the closed form's own SUGRL, on its vectors"
    assert find(replaced[0]).result["perturbation"]["features_before"] == 160
