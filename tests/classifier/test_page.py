"""The page on a prediction: its numbers are those of the classifier, and it is one file."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from html import unescape
from pathlib import Path

import numpy as np
import pytest

from naq.classifier import FewShotNodeClassifier
from naq.classifier.page import GROUP, label_groups, prediction_page, set_sizes, wilson, write_report
from planted_classes import few, planted


@pytest.fixture(scope="module")
def fitted() -> FewShotNodeClassifier:
    return FewShotNodeClassifier().fit(planted(each=60))


def test_numbers_are_those_of_the_classifier(fitted: FewShotNodeClassifier) -> None:
    fitted.set_labels(few(fitted.graph_, 3))
    page = prediction_page(fitted)
    final = fitted.transduction_
    assert len(page.classes) == 3
    for row in page.classes:
        assert row.labels == 3 and row.nodes == (final == row.name).sum()
        assert row.share == pytest.approx((final == row.name).mean())
    free = np.delete(np.arange(180), fitted.labels_.nodes)
    sure = fitted.predict_proba()[free].max(axis=1)
    for low, (middle, share) in zip(range(10), page.histogram, strict=True):
        count = sum(low / 10 <= one < (low + 1) / 10 or (low == 9 and one >= 1) for one in sure.tolist())
        assert middle == str(10 * low + 5) and share == pytest.approx(count / len(free), abs=0.01)
    sizes = fitted.prediction_sets()[free].sum(axis=1)
    assert page.sets[0] == ("1", pytest.approx((sizes == 1).mean()))


def test_labels_are_left_out_for_the_reliability(fitted: FewShotNodeClassifier) -> None:
    fitted.set_labels(few(fitted.graph_, 1))
    assert label_groups(fitted.prediction()) == [] and np.isnan(fitted.left_out()).all()
    assert not prediction_page(fitted).reliability and prediction_page(fitted).html().count("<svg") > 2
    labels = few(fitted.graph_, 20)
    fitted.set_labels(labels)
    groups = label_groups(fitted.prediction())
    assert len(groups) == min(5, 60 // GROUP) and len(prediction_page(fitted).reliability) == 1
    left, own = fitted.left_out(), fitted.labels_.class_index
    hit = (left.argmax(axis=1) == own)[np.argsort(left.max(axis=1), kind="stable")]
    for (sure, right, low, high), part in zip(groups, np.array_split(hit, len(groups)), strict=True):
        assert right == pytest.approx(part.mean()) and low <= right <= high and 1 / 3 <= sure <= 1
    assert hit.mean() > 0.8
    for place in (0, 31):
        node = int(fitted.labels_.nodes[place])
        others = {i: c for i, c in labels.items() if i != node}
        np.testing.assert_allclose(fitted.predict_proba(others)[node], left[place], atol=0.1)


def test_wilson_holds_the_share() -> None:
    for hits, count in ((0, 8), (8, 8), (3, 9)):
        low, high = wilson(hits, count)
        assert 0 <= low <= hits / count <= high <= 1
        for edge in (low, high):  # the edges are where the share is 1.96 standard errors away
            if 0 < edge < 1:
                assert abs(hits / count - edge) == pytest.approx(1.96 * np.sqrt(edge * (1 - edge) / count), abs=1e-9)


def test_the_page_is_one_file_and_escapes_names(fitted: FewShotNodeClassifier, tmp_path: Path) -> None:
    labels = {i: c.replace("class 0", "<script>alert(1)</script>") for i, c in few(fitted.graph_, 3).items()}
    fitted.set_labels(labels)
    html = write_report(fitted, tmp_path / "page.html", command="naq predict g --labels few.csv").read_text()
    assert "<script>alert" not in html and "&lt;script&gt;alert" in html
    assert not re.search(r'(src|href)="(?!#|data:)', html)
    assert f"about {100 * fitted.expected_accuracy().value:.0f} %" in html and "naq predict" in html
    assert list(tmp_path.iterdir()) == [tmp_path / "page.html"]


def test_its_charts_are_drawn_inside_their_frames(fitted: FewShotNodeClassifier) -> None:
    """Every bar and every point lies where its number says: y = 200 - 180 share, x = 46 + 424 probability."""
    page = prediction_page(fitted.set_labels(few(fitted.graph_, 20)))
    charts = [ElementTree.fromstring(one) for one in re.findall(r"<svg.*?</svg>", page.html(), re.DOTALL)]
    *weights, histogram, reliability, sets = charts
    widths = [float(bar.get("width")) for chart in weights for bar in chart.iter("rect")]
    assert widths == pytest.approx([100 * share for _, share in page.weights], abs=0.06)
    for chart, rows in ((histogram, page.histogram), (sets, page.sets)):
        heights = [float(bar.get("height")) for bar in chart.iter("rect")]
        top = max(share for _, share in rows)
        assert len(heights) == len(rows) and max(heights) <= 180
        np.testing.assert_allclose(np.array(heights) / max(heights), [share / top for _, share in rows], atol=0.01)
        assert all(
            float(bar.get("y")) + float(bar.get("height")) == pytest.approx(200, abs=0.11) for bar in chart.iter("rect")
        )
    points = [(float(dot.get("cx")), float(dot.get("cy"))) for dot in reliability.iter("circle")]
    wanted = [(46 + 424 * x, 200 - 180 * y) for line in page.reliability.values() for x, y, _, _ in line]
    np.testing.assert_allclose(points, wanted, atol=0.06)


def test_it_reads_in_the_dark_and_on_paper(fitted: FewShotNodeClassifier) -> None:
    html = prediction_page(fitted.set_labels(few(fitted.graph_, 3))).html()
    assert "prefers-color-scheme: dark" in html and "@media print" in html and "<script" not in html


def test_the_choice_is_said_in_full_at_the_end_and_in_short_above(fitted: FewShotNodeClassifier) -> None:
    fitted.set_labels(few(fitted.graph_, 3))
    page = prediction_page(fitted)
    assert max(len(text) for _, _, text in page.answers) < 160
    assert page.choice == fitted.explain_choice_ and page.choice in unescape(page.html())[-1500:]
    assert page.answers[-1][1] == page.weights[0][0] and page.weights[0][0] in page.choice


def test_the_largest_set_is_not_called_more_than_there_are_classes() -> None:
    sizes = np.array([1, 6, 6])
    assert [set_sizes(sizes, count)[-1][0] for count in (6, 7)] == ["6", "6 or more"]


def test_a_label_for_every_node_leaves_no_accuracy_to_expect(fitted: FewShotNodeClassifier) -> None:
    page = prediction_page(fitted.set_labels(few(fitted.graph_, 60)))
    assert page.answers[0][1] == "all that were given" and sum(share for _, share in page.histogram) == pytest.approx(1)
