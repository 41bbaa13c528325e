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
from naq.classifier.extend import least_squares
from naq.classifier.views import centred_units
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


PASSED = {
    "check_estimator_cloneable", "check_estimator_repr", "check_get_params_invariance", "check_set_params",
    "check_no_attributes_set_in_init", "check_parameters_default_constructible", "check_estimator_tags_renamed",
    "check_valid_tag_types", "check_mixin_order", "check_estimators_unfitted", "check_transformers_unfitted",
    "check_do_not_raise_errors_in_init_or_set_params",
}  # fmt: skip


def causes(error: BaseException | None) -> str:
    return "" if error is None else f"{error} {causes(error.__cause__ or error.__context__)}"


def test_checks_of_scikit_learn_pass_or_fail_because_of_the_array() -> None:
    """Every check that fails does so since ``fit`` is called with an array, or ``fit_transform``, which is missing."""
    found = check_estimator(OfArrays(), on_fail=None, on_skip=None)
    assert {one["check_name"] for one in found if one["status"] == "passed"} >= PASSED
    failed = {one["check_name"]: causes(one["exception"]) for one in found if one["status"] == "failed"}
    assert "fit_transform" in failed.pop("check_transformer_preserve_dtypes") and len(failed) > 20
    other = {name: cause for name, cause in failed.items() if "expected a naq.Graph" not in cause}
    assert not other, other


def test_vectors_are_those_of_embed(graph: naq.Graph, fitted: FewShotNodeClassifier) -> None:
    """Labels of the graph are never read."""
    np.testing.assert_array_equal(fitted.transform(), naq.embed(graph, "naq-plus"))
    np.testing.assert_array_equal(FewShotNodeClassifier().fit(graph.without_labels()).vectors_, fitted.vectors_)
    assert fitted.n_features_in_ == graph.num_features and is_classifier(fitted)


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


@pytest.mark.parametrize("unlike", (False, True))
def test_what_was_saved_says_the_same(graph: naq.Graph, tmp_path: Path, unlike: bool) -> None:
    """Also at one label of every class, where edges that join unlike nodes make the surroundings decide."""
    if unlike:
        ends = np.stack(np.nonzero(graph.labels[:, None] == (graph.labels + 1) % 3))
        more = {"names": graph.names, "class_names": graph.class_names, "nodes": graph.num_nodes}
        graph = naq.Graph(ends, graph.features, graph.labels, **more)
    fitted = FewShotNodeClassifier().fit(graph, few(graph, 1))
    assert next(iter(fitted.prediction().view_weights())) == ("surroundings" if unlike else "naq-plus")
    path = fitted.save(tmp_path / "c.safetensors")
    larger = with_nodes(graph, graph.features[:1], [[90], [0]], names=["n"])
    np.testing.assert_array_equal(
        FewShotNodeClassifier.load(path, graph).predict_proba(graph=larger), fitted.predict_proba(graph=larger)
    )
    again = FewShotNodeClassifier.load(path, graph.without_labels())
    np.testing.assert_array_equal(again.predict_proba(), fitted.predict_proba())
    assert again.get_params() == fitted.get_params() and again.explain_choice_ == fitted.explain_choice_
    np.testing.assert_array_equal(
        again.set_labels(few(graph)).leave_one_out(), fitted.set_labels(few(graph)).leave_one_out()
    )


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


def test_arrays_are_not_its_input() -> None:
    with pytest.warns(SkipTestWarning, match="FewShotNodeClassifier"):
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
    probabilities = classifier.predict_proba().copy()
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(classifier)).predict_proba(), probabilities)  # noqa: S301
    np.testing.assert_array_equal(classifier.fit(graph, few(graph)).predict_proba(), probabilities)
    assert classifier.classes_.tolist() == sorted(set(few(graph).values()))
    again = clone(classifier)
    assert not hasattr(again, "vectors_")
    np.testing.assert_array_equal(again.fit(graph, few(graph)).predict_proba(), probabilities)


@pytest.mark.parametrize("method", ("smooth", "naq-plus"))
def test_a_few_labels_name_every_node(graph: naq.Graph, method: str) -> None:
    """What the methods say fits together; suggestions cover the classes; ``score`` leaves out nodes of used labels."""
    classifier, truth, labels = FewShotNodeClassifier(method).fit(graph), truth_of(graph), few(graph)
    first = classifier.suggest(3)
    assert len({truth[i] for i in first}) == 3
    assert not np.isin(classifier.set_labels({int(i): truth[i] for i in first}).suggest(5), first).any()
    predicted = classifier.set_labels(labels).predict()
    others = [i for i in range(graph.num_nodes) if i not in labels]
    right = np.mean([predicted[i] == truth[i] for i in others])
    assert classifier.score(truth) == classifier.score(labels, truth) == pytest.approx(right) and right > 0.9
    probabilities = classifier.predict_proba()
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-5)
    np.testing.assert_array_equal(classifier.classes_[probabilities.argmax(axis=1)], predicted)
    expected = classifier.expected_accuracy()
    assert 0 <= expected.low <= expected.value <= expected.high <= 1
    with pytest.raises(OptionError, match="label"):
        classifier.score(labels, labels)


def test_answers_for_given_labels_change_nothing_and_set_labels_do(graph: naq.Graph) -> None:
    """In any form; labels in two steps are as labels at once; the next answer sees new parameters."""
    one, two = few(graph, 1), few(graph, 3)
    classifier = FewShotNodeClassifier().fit(graph, one)
    before, known = classifier.predict_proba(), vars(classifier).copy()
    other = classifier.predict_proba(two)
    for name in ("predict", "prediction_sets", "expected_accuracy"):
        getattr(classifier, name)(two)
    classifier.score(two, truth_of(graph))
    changed = {name for name, value in vars(classifier).items() if value is not known.get(name)}
    assert changed <= {"_last"} and (before != other).any() and classifier.labels_.nodes.tolist() == sorted(one)
    np.testing.assert_array_equal(classifier.predict_proba(), before)
    np.testing.assert_array_equal(classifier.predict_proba(support=list(two), labels=list(two.values())), other)
    numbers = classifier.predict({f"node {i}": int(c[-1]) for i, c in two.items()})
    assert numbers.dtype.kind == "i" and [f"class {c}" for c in numbers] == classifier.predict(two).tolist()
    np.testing.assert_array_equal(classifier.add_labels(two).predict_proba(), other)
    assert (classifier.set_params(unlabelled=0.0).predict_proba() != other).any()
    bare = clone(classifier).fit(graph)
    bare.predict(two)
    with pytest.raises(NotFittedError, match="labels"):
        bare.predict()


def test_unknown_nodes_belong_to_no_class(graph: naq.Graph) -> None:
    labels = {i: c for i, c in few(graph, 5).items() if c != "class 2"}
    classifier, other = FewShotNodeClassifier(unknown=True).fit(graph, labels), np.array(truth_of(graph)) == "class 2"
    outside = np.array([one is None for one in classifier.predict()])
    assert outside[other].mean() > 0.7 and outside[~other].mean() < 0.1 and not outside[list(labels)].any()
    assert classifier.set_params(unknown=False).prediction().outside is None


def test_explain_choice_names_labels_and_shares(graph: naq.Graph, fitted: FewShotNodeClassifier) -> None:
    said = copy.copy(fitted).set_labels(few(graph)).explain_choice_
    shares = [int(one) for one in re.findall(r"(\d+) %", said)]
    assert abs(sum(shares) - 100) <= len(shares) and shares == sorted(shares, reverse=True)
    assert "naq-plus" in said and "6 labels" in said


def test_files_of_another_graph_or_format_are_refused(
    graph: naq.Graph, fitted: FewShotNodeClassifier, tmp_path: Path
) -> None:
    path = copy.copy(fitted).set_labels(few(graph)).save(tmp_path / "c.safetensors")
    with pytest.raises(DataError, match="another graph"):
        FewShotNodeClassifier.load(path, planted(seed=1))
    tensors, facts = read_tensors(path, "classifier")
    wrong = ({"format": "naq-classifier-2"}, {"format": None}, {"classes": ["a", "a", "b"]}, {"trusted": 1, "plan": 3})
    for more, missing in zip(wrong, ("", "", "", "center")):
        write_tensors(path, {name: one for name, one in tensors.items() if name != missing}, facts | more)
        with pytest.raises(DataError, match="classes" if "classes" in more else "fit" if not missing else "center"):
            FewShotNodeClassifier.load(path, graph)


@pytest.mark.parametrize(
    ("changed", "what"),
    (
        (lambda g: naq.Graph(g.adjacency, g.features, names=g.names[::-1]), "names"),
        (lambda g: naq.Graph(g.adjacency, g.features * 2, names=g.names), "features"),
        (lambda g: naq.Graph(g.adjacency[:50][:, :50], g.features[:50]), "nodes"),
        (lambda g: with_nodes(g, None, np.empty((2, 0)), names=["a"]), "features"),
        (lambda g: with_nodes(g, np.ones((1, 3)), np.empty((2, 0)), names=["a"]), "shape"),
        (lambda g: with_nodes(g, g.features[:1], np.empty((2, 0))), "names"),
    ),
)
def test_later_nodes_must_follow_the_old_ones(graph: naq.Graph, fitted, changed, what: str) -> None:
    with pytest.raises(GraphError, match=what):
        fitted.extend(changed(graph))


def test_some_methods_and_graphs_cannot_map_later_nodes(graph: naq.Graph) -> None:
    with pytest.raises(OptionError, match="smooth"):
        FewShotNodeClassifier("smooth").fit(graph).extend(graph)
    bare = naq.Graph([[0, 1], [1, 2]], nodes=3)
    assert with_nodes(bare, None, [[3], [0]]).num_nodes == 4
    with pytest.raises(OptionError, match="features"):
        FewShotNodeClassifier().fit(bare).extend(with_nodes(bare, None, [[3], [0]]))


@pytest.mark.parametrize("sparse", (False, True))
def test_least_squares(sparse: bool) -> None:
    random = np.random.default_rng(0)
    words = (np.eye(60, 12) * 3 + 0.1 * random.standard_normal((60, 12))).astype(np.float32)
    true = random.standard_normal((12, 4)).astype(np.float32)
    found = least_squares(sp.csr_array(words) if sparse else words, words @ true)
    np.testing.assert_allclose(found, true, atol=1e-4)


@pytest.mark.parametrize(
    ("name", "given"),
    (("predict", {0: "a", 1: "b"}), ("transform", None), ("suggest", 2), ("save", "x"), ("set_labels", {})),
)
def test_nothing_is_answered_before_fit(name: str, given: object) -> None:
    with pytest.raises(NotFittedError, match="fit"):
        getattr(FewShotNodeClassifier(), name)(*([] if given is None else [given]))


@pytest.mark.parametrize(
    ("parameters", "what"),
    (
        ({"graph": np.eye(3)}, "graph"),
        ({"graph": "mine.npz"}, r"naq\.load\('mine\.npz'\)"),
        ({"method": "naq-feat/protonet"}, "method"),
        ({"method": "smoooth"}, "smooth"),
        ({"unlabelled": -1}, "unlabelled"),
        ({"unlabelled": "much"}, "unlabelled"),
        ({"options": {"dimm": 3}}, "dim"),
    ),
)
def test_wrong_parameters(graph: naq.Graph, parameters: dict, what: str) -> None:
    read = parameters.pop("graph", graph)
    with pytest.raises(OptionError, match=what):
        FewShotNodeClassifier(**parameters).fit(read)


@pytest.mark.parametrize("with_edges", [True, False])
def test_new_rows_are_as_right_as_nodes_of_the_graph(with_edges: bool) -> None:
    """Twenty of 400 nodes come later: by words alone, or also by the edges to nodes of their class."""
    random, group = np.random.default_rng(0), np.arange(400) % 4
    about = [" ".join([*(f"g{c}w{w}" for w in random.integers(0, 20, 8)), f"x{random.integers(50)}"]) for c in group]
    nodes = {"id": [f"n{i}" for i in range(400)], "about": about, "income": random.lognormal(3, 2, 400)}
    source = np.repeat(np.arange(400), 3)
    ends = np.stack([source, (source + 4 * random.integers(1, 100, len(source))) % 400])
    old = (ends < 380).all(axis=0)
    table = [{name: cells[part] for name, cells in nodes.items()} for part in (slice(0, 380), slice(380, 400))]
    edges = [dict(zip(("source", "target"), np.char.add("n", ends[:, part].astype(str)))) for part in (old, ~old)]
    graph = naq.from_tables(edges[0], table[0])
    classifier = FewShotNodeClassifier().fit(graph, {f"n{i}": f"class {group[i]}" for i in range(12)})
    found = classifier.predict_new(table[1], edges[1] if with_edges else None)
    right = np.mean([one == f"class {c}" for one, c in zip(found, group[380:])])
    assert right >= (0.95 if with_edges else 0.85) and found.shape == (20,)
    assert classifier.graph_.num_nodes == 380, "nothing changes"
