"""The answers of the first screen."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from naq_paper.cells.cell import Cell, Identity
from naq_paper.cells.records import Find, Record
from naq_paper.experiments.experiment import expand
from naq_paper.experiments.request import Request
from naq_paper.report.answers import NAMED, advice, headline

METHODS = ("supervised/protonet", "supervised/tent", "naq-feat/protonet", "bgrl", "sugrl", "afgrl", "vnt", "cola")
REQUEST = Request("methods", ("toy",), methods=METHODS, seeds=3, facts={"toy": {"most_classes": 6}})
DIFFICULTY = np.random.default_rng(0).normal(0, 0.1, 200)


def found(accuracy: dict[str, float]) -> Find:
    """Records of the methods that are named, with that mean; every seed differs a little."""

    def find(cell: Cell) -> Record | None:
        method = cell.config["method"]
        if method not in accuracy:
            return None
        noise = np.random.default_rng(cell.config["seed"]).normal(0, 0.01, 200)
        noise += np.random.default_rng([cell.config["seed"], len(method), ord(method[0])]).normal(0, 0.0005, 200)
        per_task = [float(x) for x in accuracy[method] + DIFFICULTY + noise]
        answered = {cell.config["head"]: {"per_task": per_task}}
        history = None if method == "smooth" else {}
        result = {
            "config": dict(cell.config),
            "data": {"tasks": "t"},
            "evaluations": answered,
            "history": history,
            "facts": {},
        }
        return Record(cell, Identity(""), result, None, 1.0)

    return find


def answers(accuracy: dict[str, float], request: Request = REQUEST):
    return headline(expand(request, found(accuracy)))


def test_a_clear_winner():
    best, margin, significant, note = answers({"naq-feat/protonet": 0.6, "bgrl": 0.5, "smooth": 0.45})
    assert best.short == "ProtoNet (NaQ-Feat)"
    assert "on toy, 5-way 1-shot: the best of 3 methods." in best.text
    assert margin.short == "10.0 points"
    assert (
        margin.text.startswith("Ahead of TLP-BGRL (")
        and "Against smooth, which trains nothing: above by 15.0" in margin.text
        and "(significantly better, p < 0.05, Holm)" in margin.text
    )
    assert significant.short == "yes"
    assert significant.text.startswith("Every other method is significantly worse (p < 0.05, Holm)")
    assert note == "The answers are about toy, 5-way 1-shot; the section “Every method” has more."


def test_a_tie_names_those_without_a_significant_difference_and_counts_the_others():
    _, margin, significant, _ = answers({"naq-feat/protonet": 0.6, "bgrl": 0.6, "smooth": 0.4, "cola": 0.4})
    assert margin.short == "0.0 points"
    assert significant.short == "not against one other"
    assert significant.text.startswith("No significant difference from the best on these tasks and seeds: ")
    assert significant.text.endswith("TLP-BGRL. The other 2 are significantly worse.")


def test_without_any_significant_difference_none_is_said_to_be_worse():
    _, _, significant, _ = answers({"naq-feat/protonet": 0.6, "bgrl": 0.6})
    assert "worse" not in significant.text


def test_a_long_tie_names_some_and_says_how_many_more():
    names = ["naq-feat/protonet", "bgrl", "sugrl", "afgrl", "vnt", "cola", "supervised/tent", "supervised/protonet"]
    _, _, significant, _ = answers({**dict.fromkeys(names, 0.6), "smooth": 0.6})
    assert significant.short == "not against 8 others"
    assert "and 2 more, named in the section below." in significant.text
    assert significant.text.count(", ") == NAMED  # five between six names, one before "named"


def test_the_smooth_baseline_is_not_compared_with_itself():
    _, margin, _, _ = answers({"smooth": 0.6, "bgrl": 0.5})
    assert "trains nothing" not in margin.text
    _, margin, _, _ = answers({"smooth": 0.5, "bgrl": 0.6})
    assert margin.text.startswith("Ahead of smooth (no training)") and "trains nothing" not in margin.text


def test_one_seed_is_said():
    _, _, significant, _ = answers({"naq-feat/protonet": 0.6, "bgrl": 0.5}, replace(REQUEST, seeds=1))
    assert significant.short == "not known" and "another training may change the order" in significant.text


def test_methods_of_one_seed_are_not_compared():
    every = found({"naq-feat/protonet": 0.6, "bgrl": 0.5, "smooth": 0.4})

    def find(cell: Cell) -> Record | None:
        return None if cell.config["method"] == "bgrl" and cell.config["seed"] else every(cell)

    *_, significant, _ = headline(expand(REQUEST, find))
    assert (
        significant.short == "yes, 1 not compared"
        and significant.text.startswith("Of the methods with several seeds: ")
        and "With one seed: 1." in significant.text
    )
    assert "Not compared, because of one seed: TLP-BGRL." in advice(expand(REQUEST, find))[0].text


def test_one_method_is_no_comparison():
    best, margin, significant, note = answers({"bgrl": 0.5})
    assert best.short == "TLP-BGRL" and best.text.endswith("the only method that has finished there.")
    assert margin.short == significant.short == "nothing to compare" and "toy" in note


@pytest.mark.parametrize(
    "given", [REQUEST, replace(REQUEST, facts={"toy": {"most_classes": 2}}), Request("times", ("toy",))]
)
def test_nothing(given):
    best, margin, significant, note = answers({}, given)
    assert best.short == margin.short == significant.short == "nothing yet" and note == ""


def test_an_analysis_answers_where_no_table_does():
    request = Request("label-noise", ("toy",), seeds=3)
    column = {"supervised/protonet": 0.5, "naq-feat/protonet": 0.6, "naq-diff/protonet": 0.55, "smooth": 0.4}
    best, _, _, note = headline([*expand(request, found(column)), *expand(REQUEST, found({}))])
    assert (
        best.short == "ProtoNet (NaQ-Feat)" and "toy, 5-way 1-shot, nothing changed" in note and "Label noise" in note
    )
    *_, note = answers(column, replace(request, ways=(3,), shots=(2,)))
    assert "toy, 3-way 2-shot" in note


def test_a_table_comes_before_an_analysis():
    request = Request("label-noise", ("toy",), seeds=3)
    column = {"supervised/protonet": 0.5, "naq-feat/protonet": 0.6, "bgrl": 0.7, "smooth": 0.4}
    best, *_, note = headline([*expand(request, found(column)), *expand(REQUEST, found(column))])
    assert best.short == "TLP-BGRL" and "Every method" in note
