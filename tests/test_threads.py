"""Settings of numeric libraries, made by a call and not by an import; equal bits for any number of threads; forks."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import naq
from naq.methods import methods
from naq.threads import SETTINGS, arithmetic, prepare_process
from naq_paper.cells.workers import _ProcessSlot
from naq_scale.engines import make_engine

NUMBERS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")

RUN = """
import hashlib, json
from naq.threads import arithmetic, prepare_process
prepare_process()
import numpy as np
import methods_under_test as suite
import naq
from graphs import random_counts
from naq.methods import get_method
from naq.testing import vectors_after

graph = suite.community_graph(size=48)  # wide enough for OpenBLAS to share an SVD between threads
wide = graph.with_features(random_counts(graph.num_nodes, 600, density=0.05))

def embedded(name):
    method = get_method(name)
    # PyTorch shares 32,768 numbers and more between threads.
    widths = {option: 128 for option in ("hidden", "latent", "predictor") if option in method.defaults}
    return vectors_after(method, wide, widths, updates=3)

run = {"way": 2, "split": suite.SPLIT, "episodes": 20, "evaluate_every": 10, "cache": None, "baseline": False}
arrays = {
    "naq-feat/protonet": naq.run(wide, "naq-feat/protonet", **run).embedding,
    "smooth": naq.embed(wide, "smooth"),
    "diffusion neighbours": naq.diffusion_neighbors(wide, k=5).scores,
    "feature neighbours": naq.feature_neighbors(wide, k=5).scores,
    **{name: embedded(name) for name in TRAINED},
}
hashes = {name: hashlib.sha256(np.ascontiguousarray(array)).hexdigest() for name, array in arrays.items()}
print(json.dumps({"arithmetic": arithmetic(), "hashes": hashes}))
"""
TRAINED = [name for name, method in methods().items() if method.in_epochs]
COMPARED = ["naq-feat/protonet", "smooth", "diffusion neighbours", "feature neighbours", *TRAINED]


def python(code, **environment):
    paths = [str(Path(naq.__file__).parents[1]), str(Path(__file__).parent)]
    inherited = {name: value for name, value in os.environ.items() if name not in (*NUMBERS, *SETTINGS)}
    given = {**inherited, "PYTHONPATH": os.pathsep.join(paths), **environment}
    return subprocess.run([sys.executable, "-c", code], env=given, check=True, capture_output=True, text=True).stdout


def test_importing_changes_no_environment():
    code = (
        "import os; before = dict(os.environ); import naq; naq.Graph, naq.evaluate; print(dict(os.environ) == before)"
    )
    assert python(code).strip() == "True"


def test_the_command_line_prepares_its_process_before_anything_heavy():
    code = """
import os, sys
from naq.cli.main import main
assert not {"numpy", "torch", "numba"} & set(sys.modules)
sys.argv = ["naq", "--version"]
try:
    main()
except SystemExit:
    print(os.environ["OMP_WAIT_POLICY"], os.environ["MKL_CBWR"])
"""
    assert python(code).splitlines()[-1] == "PASSIVE AUTO,STRICT"
    assert python(code, MKL_CBWR="COMPATIBLE").splitlines()[-1] == "PASSIVE COMPATIBLE"


def test_a_prepared_environment_keeps_what_is_set():
    given = {"MKL_CBWR": "COMPATIBLE"}
    prepare_process(given)
    assert given == {"MKL_CBWR": "COMPATIBLE", "OMP_WAIT_POLICY": "PASSIVE"}


def test_what_is_in_force(monkeypatch):
    monkeypatch.setenv("MKL_CBWR", "AVX2")
    found = arithmetic()
    assert found["torch_threads"] >= 1 and found["numba_threads"] >= 1
    assert found["cpu_capability"] and found["mkl_cbwr"] == "AVX2"


@pytest.fixture(scope="module")
def runs():
    """The same work with one thread and with two."""
    code = f"TRAINED = {TRAINED}\n{RUN}"
    return [json.loads(python(code, **dict.fromkeys(NUMBERS, str(n))).splitlines()[-1]) for n in (1, 2)]


@pytest.mark.parametrize("name", COMPARED)
def test_one_and_two_threads_give_the_same_bits(name, runs):
    one, two = runs
    assert [run["arithmetic"]["torch_threads"] for run in runs] == [1, 2]
    assert one["hashes"][name] == two["hashes"][name]


FORKED = """
import os
import numpy as np
import naq
from graphs import random_graph

def work():
    graph = random_graph(600, 3000, 40)
    return naq.embed(graph, "naq-plus"), naq.diffusion_neighbors(graph, k=5).ids, naq.feature_neighbors(graph, k=5).ids

before = work()
if (pid := os.fork()) == 0:
    os._exit(0 if all(np.array_equal(one, two) for one, two in zip(before, work())) else 1)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""


def test_ctrl_c_does_not_reach_workers_from_their_first_moment_on():
    """It reaches the whole group, and would be a traceback of each worker while it imports."""
    ask = signal.pthread_sigmask, signal.SIG_BLOCK, ()
    with make_engine("processes", 1) as engine:
        assert [signal.SIGINT in mask for _, mask in engine.run(ask[0], [ask[1:]])] == [True]
    slot = _ProcessSlot(1)
    try:
        assert signal.SIGINT in slot._executor.submit(*ask).result(timeout=120)
    finally:
        slot.close()
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_a_forked_process_computes_the_same():
    """Without our care GNU's OpenMP ends it, or waits for threads that are not there."""
    threads = {"OMP_NUM_THREADS": "2", "NUMBA_NUM_THREADS": "2", "NUMBA_THREADING_LAYER": "default"}
    assert python(FORKED, **threads) == "0\n"
