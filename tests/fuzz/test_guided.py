"""Fuzzing guided by coverage, without Atheris: whole inputs and a few changed ones end in a result or a refusal."""

from __future__ import annotations

import random

import pytest

import guided_fuzz as guided


def other_bytes(content: bytes, most: int) -> bytes:
    draw = random.Random(len(content))
    place = draw.randrange(len(content))
    return (content[:place] + draw.randbytes(3) + content[place + 2 :])[:most]


@pytest.mark.parametrize("target", guided.TARGETS)
def test_inputs_end_in_a_result_or_in_a_refusal(target: str) -> None:
    for whole in guided.seeds(target):
        guided.attempt(target, whole)
        changed = whole
        for seed in range(2):
            changed = guided.change(target, other_bytes, changed, 200_000, seed)
            assert changed[:1] == whole[:1]
            guided.attempt(target, changed)


def test_a_fault_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader with a hole, and a studio whose answer is not JSON."""
    guided.attempt("tables", guided.seeds("tables")[0])
    monkeypatch.setattr("naq.io.tables.stored.open_table", lambda *_, **__: 1 / 0)
    with pytest.raises(AssertionError, match="ZeroDivisionError"):
        guided.attempt("tables", guided.seeds("tables")[0] + b"x,y\n")
    monkeypatch.setattr("naq_studio.routes.search", lambda *_: {"a": float("nan")})
    with pytest.raises(ValueError, match="JSON"):
        guided.attempt("studio", b"\x01GET /api/search?q=n\n")
