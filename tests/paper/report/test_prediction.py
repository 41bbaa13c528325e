"""The page on a prediction: its numbers are those of the classifier, and it is one file."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from naq.classifier import FewShotNodeClassifier
from naq.classifier.page import GROUP, _set_sizes, label_groups, prediction_page, wilson, write_report
from naq_paper.experiments.views import BarView, LineView, TableView, TextView
from planted_classes import few, planted


@pytest.fixture(scope="module")
def fitted() -> FewShotNodeClassifier:
    return FewShotNodeClassifier().fit(planted(each=60))


def views(classifier: FewShotNodeClassifier) -> dict[str, object]:
    page = prediction_page(classifier, 0.9, "")
    return {view.name: view for section in page.sections for view in section.views if hasattr(view, "name")}


def test_numbers_are_those_of_the_classifier(fitted: FewShotNodeClassifier) -> None:
    fitted.predict(few(fitted.graph_, 3))
    shown = views(fitted)
    classes, histogram, sets = shown["classes"], shown["confidence"], shown["sets"]
    assert isinstance(classes, TableView) and isinstance(histogram, LineView) and isinstance(sets, BarView)
    final = fitted.transduction_
    for name, labels, nodes, share, _ in classes.rows:
        assert labels.value == 3 and nodes.value == (final == name).sum()
        assert share.value == pytest.approx(100 * (final == name).mean())
    free = np.delete(np.arange(180), fitted.labels_.nodes)
    sure = fitted.predict_proba()[free].max(axis=1)
    for low, share in zip(range(10), histogram.series[0].y):
        count = sum(low / 10 <= one < (low + 1) / 10 or (low == 9 and one >= 1) for one in sure.tolist())
        assert share == pytest.approx(100 * count / len(free), abs=1.0)
    sizes = fitted.prediction_sets()[free].sum(axis=1)
    assert sets.series[0].y[0] == pytest.approx(100 * (sizes == 1).mean())


def test_labels_are_left_out_for_the_reliability(fitted: FewShotNodeClassifier) -> None:
    fitted.predict(few(fitted.graph_, 1))
    assert label_groups(fitted) == [] and np.isnan(fitted.left_out()).all()
    assert len(views(fitted)["reliability"].series) == 2
    labels = few(fitted.graph_, 20)
    fitted.predict(labels)
    groups = label_groups(fitted)
    assert len(groups) == min(5, 60 // GROUP) and len(views(fitted)["reliability"].series) == 3
    assert np.mean([right for _, right, _, _ in groups]) > 0.8
    alone = fitted.left_out()
    for place in (0, 31):
        node = int(fitted.labels_.nodes[place])
        others = {i: c for i, c in labels.items() if i != node}
        again = FewShotNodeClassifier(temperature=fitted.temperature_.value)
        again._keep(fitted.graph_, fitted.vectors_, None, "")
        np.testing.assert_allclose(again.predict_proba(others)[node], alone[place], atol=0.02)


def test_wilson_holds_the_share() -> None:
    for hits, count in ((0, 8), (8, 8), (3, 9)):
        low, high = wilson(hits, count)
        assert 0 <= low <= hits / count <= high <= 1
        for edge in (low, high):  # the edges are where the share is 1.96 standard errors away
            if 0 < edge < 1:
                assert abs(hits / count - edge) == pytest.approx(1.96 * np.sqrt(edge * (1 - edge) / count), abs=1e-9)


def test_the_page_is_one_file_and_escapes_names(fitted: FewShotNodeClassifier, tmp_path: Path) -> None:
    labels = {i: c.replace("class 0", "<script>alert(1)</script>") for i, c in few(fitted.graph_, 3).items()}
    fitted.predict(labels)
    html = write_report(fitted, tmp_path / "page.html", command="naq predict g --labels few.csv").read_text()
    assert "<script>alert" not in html and "&lt;script&gt;alert" in html
    assert not re.search(r'(src|href)="(?!#|data:)', html)
    assert f"about {100 * fitted.expected_accuracy().value:.0f} %" in html and "naq predict" in html
    assert list(tmp_path.iterdir()) == [tmp_path / "page.html"]


def test_the_choice_is_said_in_full_at_the_end_and_in_short_above(fitted: FewShotNodeClassifier) -> None:
    fitted.predict(few(fitted.graph_, 3))
    page = prediction_page(fitted, 0.9, "")
    assert max(len(answer.text) for _, answer in page.answers) < 160
    [view] = page.sections[-1].views
    assert isinstance(view, TextView) and list(view.sentences) == [fitted.explain_choice_]


def test_the_largest_set_is_not_called_more_than_there_are_classes() -> None:
    sizes = np.array([1, 6, 6])
    assert [_set_sizes(sizes, count).series[0].x[-1] for count in (6, 7)] == ["6", "6 or more"]
