from __future__ import annotations

from typing import Any

import pytest

from naq.errors import OptionError
from naq.options import merge_options, nearest, parse_value

DEFAULTS = {"lr": 1e-4, "latent": 256, "center": True, "smoothing": "hops"}


def merged(**given: Any) -> dict[str, Any]:
    return merge_options("toy", DEFAULTS, given)


def test_given_values_override_defaults() -> None:
    assert merged() == DEFAULTS
    assert merged(lr=3e-3, center=False) == {**DEFAULTS, "lr": 3e-3, "center": False}
    assert DEFAULTS["lr"] == 1e-4


def test_text_from_the_command_line_is_converted() -> None:
    found = merged(lr="3e-3", latent="64", center="False", smoothing="7")
    assert found == {"lr": 3e-3, "latent": 64, "center": False, "smoothing": "7"}
    assert [type(value) for value in found.values()] == [float, int, bool, str]


def test_a_whole_number_is_a_number() -> None:
    value = merged(lr=1)["lr"]
    assert value == 1.0 and type(value) is float
    assert type(merged(lr="1")["lr"]) is float


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("latent", 2.5),
        ("latent", "2.5"),
        ("latent", True),
        ("latent", None),
        ("lr", "fast"),
        ("lr", True),
        ("center", 1),
        ("center", "yes"),
        ("smoothing", 3),
        ("smoothing", None),
    ],
)
def test_the_wrong_type_names_option_value_and_an_example(name: str, value: Any) -> None:
    with pytest.raises(OptionError, match=rf"option {name} of toy is .*expected .*e\.g\. {DEFAULTS[name]!r}"):
        merged(**{name: value})


def test_an_unknown_option_is_met_with_the_nearest() -> None:
    with pytest.raises(OptionError, match=r"toy has no option 'latnt'; did you mean latent\?"):
        merged(latnt=3)
    with pytest.raises(OptionError, match="expected one of center, latent, lr, smoothing"):
        merged(xyzzy=3)
    with pytest.raises(OptionError, match="it takes none"):
        merge_options("toy", {}, {"lr": 1})


def test_nearest() -> None:
    assert nearest("cosin", ["cosine", "jaccard"]) == "did you mean cosine?"
    assert nearest("q", ["b", "a"]) == "expected one of a, b."


@pytest.mark.parametrize(
    ("text", "value"),
    [("true", True), (" False ", False), ("3", 3), ("-3", -3), ("3.5", 3.5), ("1e-3", 1e-3), ("abc", "abc"), ("", "")],
)
def test_parse_value(text: str, value: Any) -> None:
    found = parse_value(text)
    assert found == value and type(found) is type(value)
