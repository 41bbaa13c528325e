"""cross_validate: folds against a loop that fits anew, figures against scikit-learn's."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import accuracy_score, balanced_accuracy_score, log_loss

import naq
from naq.classifier.validation import SMALLEST, CrossValidation, Interval
from naq.errors import OptionError
from naq.random import stream
from planted_classes import few, planted


@pytest.fixture(scope="module")
def graph() -> naq.Graph:
    return planted(each=30)


@pytest.mark.filterwarnings("ignore:.*there is one label")
@pytest.mark.parametrize("folds", (2, 4, 99))
def test_every_label_is_predicted_from_those_of_other_folds(graph: naq.Graph, folds: int) -> None:
    labels = few(graph, 5)
    labels = {node: name for node, name in labels.items() if name != "class 2" or node == max(labels)}
    clf = naq.FewShotNodeClassifier().fit(graph)
    found = naq.cross_validate(graph, labels, folds=folds, repeats=2)
    nodes = found.labels.nodes.tolist()
    single = [node for node in nodes if list(labels.values()).count(labels[node]) == 1]
    for repeat in range(2):
        mixed = stream(0, "classifier/folds", repeat).permutation(np.flatnonzero(found.hidden)).tolist()
        mixed.sort(key=lambda place: labels[nodes[place]])
        fold = {nodes[place]: number % folds for number, place in enumerate(mixed)}
        for part in set(fold.values()):
            inside = [node for node in fold if fold[node] == part]
            rest = {node: name for node, name in labels.items() if node not in inside}
            np.testing.assert_allclose(
                found.probabilities[repeat][np.searchsorted(nodes, inside)], clf.predict_proba(rest)[inside], atol=1e-6
            )
            sizes = [sum(labels[node] == name for node in inside) for name in ("class 0", "class 1")]
            assert abs(sizes[0] - 5 / folds) < 1 and abs(sizes[1] - 5 / folds) < 1
    assert np.isnan(found.probabilities[:, np.searchsorted(nodes, single)]).all() and len(single) <= 1
    again = naq.cross_validate(
        clf, pd.Series({graph.names[node]: name for node, name in labels.items()}), folds=folds, repeats=2
    )
    np.testing.assert_array_equal(again.probabilities, found.probabilities)


def test_figures_are_those_of_scikit_learn(graph: naq.Graph) -> None:
    found = naq.cross_validate(graph, few(graph, 6), folds=3, seed=1)
    own, said = found.labels.class_index, found.probabilities[0]
    assert found.accuracy.value == pytest.approx(accuracy_score(own, said.argmax(axis=1)))
    assert found.macro_accuracy.value == pytest.approx(balanced_accuracy_score(own, said.argmax(axis=1)))
    assert found.log_loss.value == pytest.approx(log_loss(own, np.maximum(said, SMALLEST)), abs=1e-4)
    assert found.overconfidence.value == pytest.approx(said.max(axis=1).mean() - found.accuracy.value, abs=1e-6)
    for place, (name, one) in enumerate(found.by_class().items()):
        assert one is not None and one.value == pytest.approx((said[own == place].argmax(axis=1) == place).mean())
        assert name == f"class {place}" and one.low <= one.value <= one.high
    frame = found.to_frame()
    assert frame["value"].tolist()[0] == found.accuracy.value and frame["labels"].tolist() == [18] * 4 + [6] * 3
    assert str(found).count("\n") == 3 and f"{found.accuracy.value:.3f}" in str(found)


@pytest.mark.parametrize("truth", (0.3, 0.7, 0.95))
def test_intervals_hold_the_truth(truth: float) -> None:
    random = np.random.default_rng(0)
    draws = random.random((2000, 40)) < truth
    shares = [Interval.of_classes([draw]) for draw in draws]
    macro = [Interval.of_classes([draw[:10], *draw[10:].reshape(10, 3)]) for draw in draws]
    means = [Interval.of_mean(draw.astype(float)) for draw in random.normal(truth, 1, (2000, 40))]
    for intervals in (shares, macro, means):
        assert np.mean([one.low <= truth <= one.high for one in intervals]) > 0.93


def test_what_cannot_be_hidden_is_said(graph: naq.Graph) -> None:
    labels = {0: "a", 1: "a", 2: "a", 3: "b"}
    with pytest.warns(UserWarning, match="'b'"):
        found = naq.cross_validate(graph, labels)
    assert found.by_class()["b"] is None and "one label" in str(found) and found.hidden.sum() == 3
    assert isinstance(found, CrossValidation) and np.isnan(found.to_frame()["value"].tolist()[-1])


@pytest.mark.parametrize(
    ("given", "what"),
    (
        ({"folds": 1}, "folds"), ({"folds": 2.5}, "folds"), ({"repeats": 0}, "repeats"), ({"labels": {0: 5}}, "two"),
        ({"labels": {0: "a", 1: "b"}}, "one of each"), ({"method": "nonsense"}, "nonsense"), ({"seed": "x"}, "seed"),
    ),
)  # fmt: skip
def test_mistakes(graph: naq.Graph, given: dict, what: str) -> None:
    with pytest.raises(OptionError, match=what):
        naq.cross_validate(graph, **{"labels": few(graph)} | given)
    with pytest.raises(OptionError, match="method"):
        naq.cross_validate(naq.FewShotNodeClassifier().fit(graph), few(graph), method="smooth")
