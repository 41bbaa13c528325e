"""The inputs from which fuzzing guided by coverage starts, and those that once found a fault, read without Atheris."""

from __future__ import annotations

import pytest

import guided_fuzz as guided


@pytest.mark.parametrize("target", guided.KINDS)
def test_kept_inputs_end_in_a_result_or_in_a_sentence(target: str) -> None:
    kept = sorted((guided.CORPUS / target).iterdir())
    for path in kept:
        guided.attempt(target, path.read_bytes())
    covered = {path.read_bytes()[0] for path in kept if path.name.startswith("seed")}
    assert covered == set(range(len(guided.KINDS[target]) + (target == "studio"))), "a kind has no seed"


@pytest.mark.parametrize("target", ("tables", "archives", "classifier"))
def test_what_a_seed_says_is_what_the_reader_gets(target: str) -> None:
    """Flat and whole are the same content: the reader accepts each seed."""
    for place, (name, made, back) in enumerate(guided.KINDS[target]):
        bench = guided.bench(name)
        assert bench.trial_of(made(back(bench.content))).outcome == "same", name
        assert guided.CORPUS.joinpath(target, f"seed-{place:02}").read_bytes()[0] == place


def test_a_fault_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader with a hole, and a studio that answers with an error of its own."""
    seed = (guided.CORPUS / "tables" / "seed-00").read_bytes()
    monkeypatch.setattr("naq.io.tables.reading.examine", lambda *_, **__: 1 / 0)
    with pytest.raises(AssertionError, match="ZeroDivisionError"):
        guided.attempt("tables", seed + b"x,y\n")
    monkeypatch.setattr("naq_studio.routes.search", lambda *_: {"a": float("nan")})
    with pytest.raises(ValueError, match="JSON"):
        guided.attempt("studio", b"\x01GET /api/search?q=n\n")


def test_parts_of_any_bytes() -> None:
    parts = [(b"a", b"1" * 70_000), (b"", b""), (b"n" * 255, b"\0")]
    assert guided.unflat(guided.flat(parts)) == parts
    whole = guided.flat(parts)
    for cut in range(0, len(whole), 997):
        assert len(guided.unflat(whole[:cut])) <= len(parts)
