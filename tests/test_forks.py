"""Processes that others start: workers that Ctrl-C does not reach, and a fork of a process that has computed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from naq_paper.cells.workers import _ProcessSlot
from naq_scale.engines import make_engine

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


def test_ctrl_c_does_not_reach_workers_from_their_first_moment_on() -> None:
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


def test_a_forked_process_computes_the_same() -> None:
    """Without our care GNU's OpenMP ends it, or waits for threads that are not there."""
    threads = {"OMP_NUM_THREADS": "2", "NUMBA_NUM_THREADS": "2", "NUMBA_THREADING_LAYER": "default"}
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p), **threads}
    done = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, text=True, timeout=600, env=environment)
    assert done.stdout == "0\n", done.stderr
