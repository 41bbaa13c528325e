"""FewShotNodeClassifier: scikit-learn's conventions, any labels, files, later nodes."""

from __future__ import annotations

import copy
import pickle
import re
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError, SkipTestWarning
from sklearn.utils import Tags, get_tags
from sklearn.utils.estimator_checks import check_estimator
from sklearn.utils.validation import check_is_fitted

import naq
from graphs import random_graph
from naq.classifier import FewShotNodeClassifier, with_nodes
from naq.classifier.prototypes import centred_units
from naq.errors import DataError, GraphError, OptionError
from naq.files import read_tensors, write_tensors
from planted_classes import few, planted


@pytest.fixture(scope="module")
def graph() -> naq.Graph:
    return planted(isolated=3)


@pytest.fixture(scope="module")
def fitted(graph: naq.Graph) -> FewShotNodeClassifier:
    return FewShotNodeClassifier().fit(graph)


def truth_of(graph: naq.Graph) -> list[str]:
    return graph.class_names[graph.labels].tolist()


class OfArrays(FewShotNodeClassifier):
    """The same with tags under which ``check_estimator`` leaves no check out."""

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array, tags.no_validation = True, False
        return tags


GIVEN_ARRAYS = "fit is called with an array and takes a graph"
EXPECTED_TO_FAIL = {
    **dict.fromkeys(
        (
            "check_fit_score_takes_y", "check_estimators_overwrite_params", "check_dont_overwrite_parameters",
            "check_estimators_fit_returns_self", "check_readonly_memmap_input", "check_n_features_in_after_fitting",
            "check_positive_only_tag_during_fit", "check_estimators_dtypes", "check_complex_data", "check_dtype_object",
            "check_estimators_empty_data_messages", "check_pipeline_consistency", "check_estimators_nan_inf",
            "check_estimator_sparse_tag", "check_estimator_sparse_array", "check_estimator_sparse_matrix",
            "check_estimators_pickle", "check_f_contiguous_array_estimator", "check_classifier_data_not_an_array",
            "check_classifiers_one_label", "check_classifiers_classes", "check_classifiers_train",
            "check_classifiers_regression_target", "check_supervised_y_2d", "check_transformer_data_not_an_array",
            "check_transformer_general", "check_methods_sample_order_invariance", "check_methods_subset_invariance",
            "check_fit2d_1sample", "check_fit2d_1feature", "check_dict_unchanged", "check_fit_idempotent",
            "check_fit_check_is_fitted", "check_n_features_in", "check_fit2d_predict1d", "check_requires_y_none",
        ),
        GIVEN_ARRAYS,
    ),
    "check_transformer_preserve_dtypes": "fit_transform is missing: vectors are of nodes and not of rows that are given",
}  # fmt: skip
PASSED = {
    "check_estimator_cloneable", "check_estimator_repr", "check_get_params_invariance", "check_set_params",
    "check_no_attributes_set_in_init", "check_parameters_default_constructible", "check_estimator_tags_renamed",
    "check_valid_tag_types", "check_mixin_order", "check_estimators_unfitted", "check_transformers_unfitted",
    "check_do_not_raise_errors_in_init_or_set_params",
}  # fmt: skip


def causes(error: BaseException | None) -> str:
    return "" if error is None else f"{error} {causes(error.__cause__ or error.__context__)}"


def test_checks_of_scikit_learn_pass_or_fail_for_the_reason_that_is_stated() -> None:
    """Strict: no other check fails, none that is expected to fail passes, and each fails because of the array."""
    found = check_estimator(OfArrays(), expected_failed_checks=EXPECTED_TO_FAIL, on_fail=None, on_skip=None)
    of: dict[str, set[str]] = {}
    for one in found:
        of.setdefault(one["status"], set()).add(one["check_name"])
        if one["status"] == "xfail" and one["expected_to_fail_reason"] == GIVEN_ARRAYS:
            assert "expected a naq.Graph" in causes(one["exception"]), one["check_name"]
    assert of["passed"] >= PASSED and not of["passed"] & set(EXPECTED_TO_FAIL)
    assert "failed" not in of, of.get("failed")
    assert of["xfail"] == set(EXPECTED_TO_FAIL)


def test_scikit_learn_is_told_that_input_is_no_array() -> None:
    with pytest.warns(SkipTestWarning, match="Can.t test estimator FewShotNodeClassifier"):
        check_estimator(FewShotNodeClassifier())
    tags = get_tags(FewShotNodeClassifier())
    assert tags.classifier_tags is not None and tags.transformer_tags is not None and not tags.input_tags.two_d_array


def test_what_checks_with_arrays_ask_holds_for_graphs(graph: naq.Graph) -> None:
    """fit returns self, changes no parameter and gives the same again; a pickled copy says the same."""
    classifier = FewShotNodeClassifier(seed=2, options={"dim": 16})
    before = copy.deepcopy(classifier.get_params())
    with pytest.raises(NotFittedError):
        check_is_fitted(classifier)
    assert classifier.fit(graph, few(graph)) is classifier and classifier.get_params() == before
    check_is_fitted(classifier)
    chances = classifier.predict_proba().copy()
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(classifier)).predict_proba(), chances)  # noqa: S301
    np.testing.assert_array_equal(classifier.fit(graph, few(graph)).predict_proba(), chances)
    known = vars(classifier).copy()
    for ask in (classifier.predict, classifier.predict_proba, classifier.transform, classifier.prediction_sets):
        ask()
    assert vars(classifier).keys() == known.keys() and all(
        vars(classifier)[name] is known[name] for name in ("vectors_", "graph_", "_labels", "_form")
    )
    assert classifier.classes_.tolist() == sorted(set(few(graph).values())) and chances.shape == (graph.num_nodes, 3)
    again = clone(classifier)
    assert not hasattr(again, "vectors_")
    np.testing.assert_array_equal(again.fit(graph, few(graph)).predict_proba(), chances)


def test_vectors_are_those_of_embed(graph: naq.Graph, fitted: FewShotNodeClassifier) -> None:
    """Labels of the graph are never read."""
    np.testing.assert_array_equal(fitted.transform(), naq.embed(graph, "naq-plus"))
    np.testing.assert_array_equal(FewShotNodeClassifier().fit(graph.without_labels()).vectors_, fitted.vectors_)
    assert fitted.n_features_in_ == graph.num_features and is_classifier(fitted)


@pytest.mark.parametrize("method", ("smooth", "naq-plus"))
def test_a_few_labels_name_every_node(graph: naq.Graph, method: str) -> None:
    classifier = FewShotNodeClassifier(method).fit(graph, few(graph))
    assert classifier.classes_.tolist() == ["class 0", "class 1", "class 2"]
    assert classifier.score(truth_of(graph)) > 0.9
    chances = classifier.predict_proba()
    np.testing.assert_allclose(chances.sum(axis=1), 1, atol=1e-5)
    np.testing.assert_array_equal(classifier.classes_[chances.argmax(axis=1)], classifier.predict())
    expected = classifier.expected_accuracy()
    assert 0 <= expected.low <= expected.value <= expected.high <= 1


def test_strings_numbers_and_forms(graph: naq.Graph, fitted: FewShotNodeClassifier) -> None:
    labels = few(graph, 3)
    labels.pop(next(iter(labels)))
    by_name = fitted.predict({f"node {i}": c for i, c in labels.items()})
    np.testing.assert_array_equal(by_name, fitted.predict(support=list(labels), labels=list(labels.values())))
    numbers = fitted.predict({i: int(c[-1]) for i, c in labels.items()})
    assert numbers.dtype.kind == "i" and [f"class {c}" for c in numbers] == by_name.tolist()


def test_more_labels_without_fitting_are_as_if_given_at_once(graph: naq.Graph) -> None:
    one, two = FewShotNodeClassifier().fit(graph), FewShotNodeClassifier().fit(graph, few(graph, 2))
    one.add_labels(few(graph, 1))
    before = one.predict_proba().copy()
    one.add_labels(few(graph, 2))
    np.testing.assert_array_equal(one.predict_proba(), two.predict_proba())
    assert (before != one.predict_proba()).any()


def test_set_params_is_seen_by_the_next_answer(graph: naq.Graph, fitted: FewShotNodeClassifier) -> None:
    mine = clone(fitted).fit(graph, few(graph))
    before = mine.predict_proba().copy()
    mine.set_params(unlabelled=0.0)
    assert (mine.predict_proba() != before).any()
    assert mine.prediction().nowhere is None and mine.set_params(unknown=True).prediction().nowhere is not None


@pytest.mark.parametrize(
    "graph",
    (
        naq.Graph(np.empty((2, 0), int), np.random.default_rng(0).standard_normal((20, 5)), nodes=20),
        naq.Graph([[0, 1, 2, 3, 4, 5], [1, 2, 0, 4, 5, 3]], nodes=6),
        naq.Graph([[0], [1]], [[1.0, 0.0], [0.0, 1.0]], nodes=2),
        random_graph(),
    ),
    ids=("no edges", "no features", "two nodes", "some without edges or features"),
)
def test_poor_graphs(graph: naq.Graph) -> None:
    found = FewShotNodeClassifier().fit(graph, {0: "a", graph.num_nodes - 1: "b"})
    assert found.transduction_[0] == "a" and found.transduction_[-1] == "b"
    assert np.isfinite(found.predict_proba()).all()


def test_explain_choice_is_one_sentence(graph: naq.Graph, fitted: FewShotNodeClassifier) -> None:
    mine = copy.copy(fitted).set_labels(few(graph))
    said = mine.explain_choice_
    assert re.match("naq-plus on 90 nodes.* edges trusted.* 2 labels in each of 3 classes", said) and said[-1] == "."
    shares = [int(one) for one in re.findall(r"(\d+) %", said)]
    assert abs(sum(shares) - 100) <= len(shares) and shares == sorted(shares, reverse=True)
    assert "6 labels" in said and "no label can be left out" in mine.set_labels(few(graph, 1)).explain_choice_


def test_unknown_nodes_are_told(graph: naq.Graph) -> None:
    labels = {i: c for i, c in few(graph, 5).items() if c != "class 2"}
    predicted = FewShotNodeClassifier(unknown=True).fit(graph, labels).predict()
    nowhere = np.array([one is None for one in predicted])
    other = np.array(truth_of(graph)) == "class 2"
    assert nowhere[other].mean() > 0.7 and nowhere[~other].mean() < 0.1
    assert not nowhere[list(labels)].any()


@pytest.mark.parametrize("unlike", (False, True))
def test_what_was_saved_says_the_same(graph: naq.Graph, tmp_path: Path, unlike: bool) -> None:
    """Also at one label of every class, where edges that join unlike nodes make the surroundings decide."""
    if unlike:
        ends = np.stack(np.nonzero(graph.labels[:, None] == (graph.labels + 1) % 3))
        more = {"names": graph.names, "class_names": graph.class_names, "nodes": graph.num_nodes}
        graph = naq.Graph(ends, graph.features, graph.labels, **more)
    fitted = FewShotNodeClassifier().fit(graph, few(graph, 1))
    assert next(iter(fitted.prediction().view_weights())) == ("surroundings" if unlike else "naq-plus")
    path, larger = (
        fitted.save(tmp_path / "c.safetensors"),
        with_nodes(graph, graph.features[:1], [[90], [0]], names=["n"]),
    )
    np.testing.assert_array_equal(
        FewShotNodeClassifier.load(path, graph).predict_proba(graph=larger), fitted.predict_proba(graph=larger)
    )
    again = FewShotNodeClassifier.load(path, graph.without_labels())
    np.testing.assert_array_equal(again.predict_proba(), fitted.predict_proba())
    assert again.get_params() == fitted.get_params() and again.explain_choice_ == fitted.explain_choice_
    np.testing.assert_array_equal(again.set_labels(few(graph)).left_out(), fitted.set_labels(few(graph)).left_out())


@pytest.mark.parametrize("before", ("naq-classifier-2", "naq-classifier-1"))
def test_files_of_before_are_read(graph: naq.Graph, fitted: FewShotNodeClassifier, tmp_path: Path, before: str) -> None:
    """Format 2: a temperature, another name of the classes' places. Format 1: no center either."""
    path = copy.copy(fitted).set_labels(few(graph)).save(tmp_path / "c.safetensors")
    tensors, facts = read_tensors(path, "classifier")
    assert facts["format"] == "naq-classifier-3"
    tensors["slots"] = tensors.pop("class_index")
    if before == "naq-classifier-1":
        del tensors["center"]
    parameters = facts["parameters"] | {"temperature": None}
    write_tensors(path, tensors, facts | {"format": before, "parameters": parameters})
    again = FewShotNodeClassifier.load(path, graph)
    np.testing.assert_array_equal(again.predict(), fitted.predict(few(graph)))
    larger = with_nodes(graph, graph.features[:1], [[90], [0]], names=["new"])
    cosines = (again.transform(larger) * copy.copy(fitted).transform(larger)).sum(axis=1)
    assert cosines.min() > 0.9


def test_predict_with_labels_changes_nothing(graph: naq.Graph) -> None:
    one, two = few(graph, 1), few(graph, 3)
    classifier = FewShotNodeClassifier().fit(graph, one)
    before = classifier.predict_proba()
    other = classifier.predict_proba(two)
    assert (before != other).any() and classifier.labels_.nodes.tolist() == sorted(one)
    np.testing.assert_array_equal(classifier.predict_proba(), before)
    np.testing.assert_array_equal(classifier.set_labels(two).predict_proba(), other)
    assert classifier.expected_accuracy(one) != classifier.expected_accuracy()


def test_labels_of_predict_are_kept_for_one_release(graph: naq.Graph) -> None:
    """The way of before: predict(labels), then ask about them."""
    old, new = (FewShotNodeClassifier().fit(graph) for _ in range(2))
    predicted = old.predict(few(graph))
    new.set_labels(few(graph))
    asked = {"predict": (), "predict_proba": (), "expected_accuracy": (), "suggest": (3,), "score": (truth_of(graph),)}
    for name in (*asked, "transduction_", "classes_", "explain_choice_"):
        with pytest.warns(FutureWarning, match=r"fit\(graph, labels\) or set_labels\(labels\)"):
            found = getattr(old, name)(*asked[name]) if name in asked else getattr(old, name)
        wanted = getattr(new, name)(*asked[name]) if name in asked else getattr(new, name)
        np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(predicted, new.predict())
    with pytest.warns(FutureWarning):
        old.add_labels(few(graph, 3))
    np.testing.assert_array_equal(old.predict(), new.add_labels(few(graph, 3)).predict())


def test_load_refuses_another_graph_and_damage(graph: naq.Graph, fitted: FewShotNodeClassifier, tmp_path: Path) -> None:
    path = copy.copy(fitted).set_labels(few(graph)).save(tmp_path / "c.safetensors")
    with pytest.raises(DataError, match=r"fitted on another graph \('planted'\)"):
        FewShotNodeClassifier.load(path, planted(seed=1))
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    damaged = tmp_path / "d.safetensors"
    damaged.write_bytes(content)
    with pytest.raises(DataError, match="checksum"):
        FewShotNodeClassifier.load(damaged, graph)
    damaged.write_bytes(content[:100])
    with pytest.raises(DataError, match="not a readable classifier"):
        FewShotNodeClassifier.load(damaged, graph)
    write_tensors(damaged, {}, {})
    with pytest.raises(DataError, match="expected naq-classifier-3"):
        FewShotNodeClassifier.load(damaged, graph)
    with pytest.raises(DataError, match="does not exist"):
        FewShotNodeClassifier.load(tmp_path / "none", graph)


@pytest.mark.parametrize("dense", (False, True))
@pytest.mark.parametrize("edges", ("trusted", "doubted"))
def test_the_same_graph_again_has_the_same_vectors(graph: naq.Graph, dense: bool, edges: str) -> None:
    narrow = graph.features.toarray() @ np.random.default_rng(0).standard_normal((36, 8))
    read = graph.with_features(narrow) if dense else graph
    classifier = FewShotNodeClassifier(options={"edges": edges, "dim": 16}).fit(read)
    again = classifier.transform(with_nodes(read, read.features[:0], np.empty((2, 0)), names=[]))
    cosines = (centred_units(again) * centred_units(classifier.vectors_)).sum(axis=1)
    assert cosines.min() > 0.999


def test_later_nodes_are_named_as_a_full_fit_would() -> None:
    whole = planted(each=60, seed=2)
    old = 150
    ends = np.stack(whole.adjacency.nonzero())
    new = (ends >= old).any(axis=0)
    small = naq.Graph(whole.adjacency[:old][:, :old], whole.features[:old], names=whole.names[:old])
    larger = with_nodes(small, whole.features[old:], ends[:, new], names=whole.names[old:])
    assert larger.structure_hash == whole.structure_hash
    labels = {i: c for i, c in enumerate(truth_of(whole)) if i < 20}
    grown = FewShotNodeClassifier().fit(small).predict(labels, graph=larger)
    full = FewShotNodeClassifier().fit(larger).predict(labels)
    assert (grown[old:] == full[old:]).mean() > 0.9
    assert (grown[old:] == np.array(truth_of(whole))[old:]).mean() > 0.9


@pytest.mark.parametrize("directed", (False, True))
def test_later_edges_beside_weights(directed: bool) -> None:
    """Those that are there keep their weight, new ones weigh 1; they have a direction where some have one."""
    arcs = np.array([[0, 3, 0], [0 if directed else 3, 0, 0], [0, 0, 0.0]])
    graph = naq.Graph([[0], [1]], np.eye(3), nodes=3).with_arcs(sp.csr_array(arcs))
    larger = with_nodes(graph, np.ones((1, 3)), [[0, 2, 3], [1, 0, 1]]).arcs.toarray()
    wanted = np.pad(arcs, (0, 1))
    for one, two in ((2, 0), (3, 1)):
        wanted[one, two] = 1
        wanted[two, one] = 1 - directed
    np.testing.assert_array_equal(larger, wanted)


def test_later_nodes_must_follow_the_old_ones(graph: naq.Graph, fitted: FewShotNodeClassifier) -> None:
    with pytest.raises(GraphError, match="other names"):
        fitted.extend(naq.Graph(graph.adjacency, graph.features, names=graph.names[::-1]))
    with pytest.raises(GraphError, match="other features"):
        fitted.extend(naq.Graph(graph.adjacency, graph.features * 2, names=graph.names))
    with pytest.raises(GraphError, match="the fitted one 90"):
        fitted.extend(naq.Graph(graph.adjacency[:50][:, :50], graph.features[:50]))
    with pytest.raises(OptionError, match="smooth cannot map"):
        FewShotNodeClassifier("smooth").fit(graph).extend(graph)
    for features, names, says in (
        (None, ["a"], "both have features"),
        (np.ones((1, 3)), ["a"], "expected"),
        (graph.features[:1], None, "names"),
    ):
        with pytest.raises(GraphError, match=says):
            with_nodes(graph, features, np.empty((2, 0)), names=names)
    bare = naq.Graph([[0, 1], [1, 2]], nodes=3)
    assert with_nodes(bare, None, [[3], [0]]).num_nodes == 4
    with pytest.raises(OptionError, match="no features that differ"):
        FewShotNodeClassifier().fit(bare).extend(with_nodes(bare, None, [[3], [0]]))


def test_suggest_covers_the_classes(graph: naq.Graph) -> None:
    classifier, truth = FewShotNodeClassifier().fit(graph), truth_of(graph)
    first = classifier.suggest(3)
    assert len({truth[i] for i in first}) == 3
    classifier.add_labels({int(i): truth[i] for i in first})
    assert not np.isin(classifier.suggest(5), first).any()


def test_asked_too_early(graph: naq.Graph, fitted: FewShotNodeClassifier) -> None:
    asked = {"predict": ({0: "a", 1: "b"},), "transform": (), "suggest": (2,), "save": ("x",), "set_labels": ({},)}
    for name, given in asked.items():
        with pytest.raises(NotFittedError, match="fit"):
            getattr(FewShotNodeClassifier(), name)(*given)
    with pytest.raises(NotFittedError, match="no labels yet"):
        clone(fitted).fit(graph).predict()


@pytest.mark.parametrize(
    ("parameters", "says"),
    (
        ({"graph": np.eye(3)}, r"expected a naq\.Graph"),
        ({"graph": "mine.npz"}, r"graph is str; expected a naq\.Graph, e\.g\. naq\.load\('mine\.npz'\)"),
        ({"method": "naq-feat/protonet"}, "trained on episodes"),
        ({"method": "smoooth"}, "did you mean"),
        ({"unlabelled": -1}, "unlabelled is -1"),
        ({"unlabelled": "much"}, "unlabelled is 'much'"),
        ({"options": {"dimm": 3}}, "dim"),
    ),
)
def test_wrong_parameters(graph: naq.Graph, parameters: dict, says: str) -> None:
    with pytest.raises(OptionError, match=says):
        FewShotNodeClassifier(**{k: v for k, v in parameters.items() if k != "graph"}).fit(
            parameters.get("graph", graph)
        )


def test_score_counts_other_nodes_only(graph: naq.Graph, fitted: FewShotNodeClassifier) -> None:
    labels = few(graph)
    with pytest.raises(OptionError, match="no node has a true class beside"):
        fitted.score(labels, labels)
    truth = truth_of(graph)
    predicted = fitted.predict(labels)
    others = [i for i in range(graph.num_nodes) if i not in labels]
    assert fitted.score(labels, truth) == pytest.approx(np.mean([predicted[i] == truth[i] for i in others]))
