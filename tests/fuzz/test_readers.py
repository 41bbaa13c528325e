"""Every reader on damaged files: refused in one sentence, or accepted with the same content.

``make test`` takes the first seeds of each kind; ``make fuzz`` as many as ``NAQ_FUZZ`` says. ``benchmarks/fuzz.py`` runs hundreds of thousands in processes
with a limit on memory.
"""

from __future__ import annotations

import contextlib
import os
import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import mutations
from damaged_files import TARGETS, Bench
from naq.errors import LONGEST, NaqError, plain
from naq.files import parse_json

SEEDS = int(os.environ.get("NAQ_FUZZ", "40"))
KEPT = {
    "records": (877,),
    "csv: edges": (1257,),
    "csv: nodes": (1127,),
    "parquet": (193, 417, 1179, 1298),
    "npy": (21,),
    "graphml": (1388,),
    "parquet: edges": (500029, 500031, 500046),
    "graph folder: manifest": (500003, 500006, 500014, 500019, 500059),
    "graph folder: edges": (500031,),
    "graph folder: labels": (500058,),
    "graph folder: names": (500016,),
    "run: metrics, resealed": (500003, 500007, 500050),
    "shard of a table, resealed": (500001,),
    "run: resumed, resealed": (500000, 500003, 500005),
    "studio: import": (1001080,),
    "cached table, resealed": (1000942,),
    "classifier, resealed": (800672, 800683, 800913),
    "labels": (319, 696),
}
"""Seeds that once found a fault."""


@pytest.fixture(scope="module")
def benches(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Bench]:
    return {name: Bench(target, tmp_path_factory.mktemp("fuzz") / "x") for name, target in TARGETS.items()}


@pytest.mark.parametrize("name", TARGETS)
def test_damaged_files(name: str, benches: dict[str, Bench]) -> None:
    outcomes = []
    for seed in (*KEPT.get(name, ()), *range(max(2, int(SEEDS * TARGETS[name].share)))):
        trial = benches[name].trial(seed)
        assert not trial.fault, f"{name}, seed {seed}: {trial}"
        outcomes.append(trial.outcome)
    assert "refused" in outcomes, "nothing was refused: the damage does not reach the reader"


@pytest.mark.parametrize("name", [name for name, target in TARGETS.items() if target.ours])
def test_one_or_two_flipped_bits_never_change_what_is_read(name: str, benches: dict[str, Bench]) -> None:
    bench, draw = benches[name], random.Random(name)
    for _ in range(max(2, int(max(15, SEEDS // 4) * TARGETS[name].share))):
        content = bytearray(bench.content)
        for _ in range(draw.choice((1, 2))):
            content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
        trial = bench.trial_of(bytes(content))
        assert not trial.fault, trial


@settings(max_examples=10 * SEEDS, deadline=None, derandomize=SEEDS == 40, suppress_health_check=list(HealthCheck))
@given(st.text(max_size=3000))
def test_a_message_is_one_printable_line_of_bounded_length(text: str) -> None:
    for message in (plain(text), str(NaqError(text))):
        assert len(message) <= LONGEST and message.isprintable() and message.isascii() >= text.isascii()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda x: st.lists(x) | st.dictionaries(st.text(), x),
)


@settings(max_examples=4 * SEEDS, deadline=None, derandomize=SEEDS == 40, suppress_health_check=list(HealthCheck))
@given(value=JSON, seed=st.integers(0, 2**32))
def test_json_in_the_place_of_every_json_of_ours(
    value: object, seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Any JSON at all instead of a record, requests or the files of a run."""
    content = mutations.json_text(value).encode("utf-8", "surrogatepass")
    for name in ("cell", "requests", "run: config", "run: metrics"):
        bench = (
            _benches.setdefault(name, Bench(TARGETS[name], tmp_path_factory.mktemp("json") / "x"))
            if name not in _benches
            else _benches[name]
        )
        assert not (trial := bench.trial_of(content)).fault, trial


_benches: dict[str, Bench] = {}


@settings(max_examples=5 * SEEDS, deadline=None, derandomize=SEEDS == 40, suppress_health_check=list(HealthCheck))
@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_json_text_of_any_kind(content: bytes) -> None:
    with contextlib.suppress(ValueError):
        parse_json(content)


def test_deep_brackets_and_long_numbers_are_no_json_of_ours() -> None:
    for text in ("[" * 100_000 + "]" * 100_000, '{"a":' * 50_000, "9" * 5000, "NaN", "-Infinity"):
        with pytest.raises(ValueError):
            parse_json(text)


def test_the_fuzzer_would_notice(tmp_path: Path) -> None:
    """A reader without a checksum, and one that crashes, are faults."""
    from dataclasses import replace

    target = TARGETS["csv: edges"]
    careless = Bench(replace(target, ours=True), tmp_path / "a")
    assert any(careless.trial(seed).outcome == "silent" for seed in range(60))

    def crash(path: Path) -> str:
        return "whole" if path.read_bytes() == target_bytes else str(1 / 0)

    target_bytes = careless.content
    assert Bench(replace(target, read=crash), tmp_path / "b").trial(0).outcome == "traceback"
