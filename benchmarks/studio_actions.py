"""Random actions against a plain model of the state, through HTTP, with restarts by kill -9: nothing may differ, nothing may be lost.

python benchmarks/studio_actions.py                        10,000 actions
python benchmarks/studio_actions.py --actions 1000 --seed 3

A request that was under way when the server was killed may have been done or not; which of the two it was is read from the server that follows, and it must be one of them.
"""

from __future__ import annotations

import argparse
import copy
import http.client
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "studio")]

from test_journal import Plain

from naq.io.npz import save_graph
from naq_studio.board import Row
from studio_under_test import word_graph

NODES = 40
NAMES = ["a", "b", "=c", "d,e", "'f", "🦊", "<i>g</i>", '"h"']


class Server:
    """``naq studio`` as a process, and a client with its cookie."""

    def __init__(self, graph: Path, journal: Path) -> None:
        command = [sys.executable, "-c", _SERVE, str(graph), str(journal)]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": str(ROOT / "src")}
        )
        assert self.process.stdout is not None
        address = next(found[1] for line in self.process.stdout if (found := re.search(r"Open (\S+)", line)))
        self.port = int(address.split(":")[2].split("/")[0])
        self.line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        self.line.request("GET", address[address.index("/?") :])
        answer = self.line.getresponse()
        self.key = answer.read().decode().split('data-key="')[1].split('"')[0]
        self.cookie = str(answer.headers["set-cookie"]).split(";")[0]

    def ask(self, path: str, body: Any = None) -> tuple[int, Any]:
        headers = {"Cookie": self.cookie, "X-Naq-Key": self.key, "Sec-Fetch-Site": "same-origin"}
        headers["Content-Type"] = "application/json"
        self.line.request("GET" if body is None else "POST", path, None if body is None else json.dumps(body), headers)
        answer = self.line.getresponse()
        content = answer.read()
        return answer.status, content if "octet" in str(answer.headers["content-type"]) else json.loads(content)

    def kill(self) -> None:
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


# The server without its background work, which would only wait for a graph that nobody looks at.
_SERVE = """
import sys
from pathlib import Path
from naq.io.npz import read_graph
from naq_studio import server, session
session.Session.start = lambda self: None
server.serve(read_graph(Path(sys.argv[1])), Path(sys.argv[2]), port=0, browser=False, say=lambda text: print(text, flush=True))
"""


def seen(server: Server) -> dict[str, Any]:
    """The server's state in the words of the model."""
    status, state = server.ask("/api/state")
    assert status == 200
    _, content = server.ask("/api/arrays")
    given = [int.from_bytes(content[2 * i : 2 * i + 2], "little", signed=True) for i in range(NODES)]
    names = {one["id"]: one["name"] for one in state["classes"]}
    return {
        "classes": set(names.values()),
        "labels": {node: names.get(one) for node, one in enumerate(given) if one != -3},
        "skipped": state["skipped"],
        "unknown": state["unknown"],
        "undo": state["undo"],
        "redo": state["redo"],
        "ids": {name: number for number, name in names.items()},
        "colours": {one["name"]: one["colour"] for one in state["classes"]},
    }


def expected(plain: Plain) -> dict[str, Any]:
    state = plain.state
    return {
        "classes": set(state["classes"]),
        "labels": state["labels"],
        "skipped": len(state["skipped"]),
        "unknown": state["unknown"],
        "undo": len(plain.done),
        "redo": len(plain.undone),
    }


def same(server: Server, plain: Plain) -> bool:
    found, wanted = seen(server), expected(plain)
    colours = all(plain.state["classes"].get(name) in (None, colour) for name, colour in found["colours"].items())
    return colours and all(found[key] == value for key, value in wanted.items())


def drawn(draw: random.Random, plain: Plain, ids: dict[str, int]) -> tuple[dict[str, Any], list[Row]]:
    """A request, and the rows that the model gets for it; names stand for numbers of classes that are there."""
    kind = draw.choices(["label", "bulk", "new", "none", "unlabel", "skip", "rename", "merge", "recolour", "delete", "unknown", "undo", "redo"],
                        [20, 5, 8, 4, 5, 4, 5, 2, 3, 2, 2, 16, 12])[0]  # fmt: skip
    labels, skipped = plain.state["labels"], plain.state["skipped"]
    name, other, node = draw.choice(NAMES), draw.choice(NAMES), draw.randrange(NODES)
    if kind in ("undo", "redo"):
        return {"action": kind}, [Row(kind)]
    if kind == "unknown":
        value = draw.choice(["on", "off"])
        return {"action": kind, "value": value}, [Row(kind, value=value)]
    if kind == "new":
        made = [] if name in ids else [Row("make", label=name)]
        return {"action": "label", "nodes": [node], "new": name}, [*made, Row("label", node, name)]
    if kind in ("none", "unlabel", "skip"):
        nothing = {
            "none": labels.get(node, 0) is None,
            "unlabel": node not in labels,
            "skip": node in labels or node in skipped,
        }[kind]
        return {"action": kind, "nodes": [node]}, [] if nothing else [Row(kind, node)]
    number = ids.get(name, 9_999)
    if kind in ("label", "bulk"):
        nodes = [node] if kind == "label" else draw.sample(range(NODES), draw.randint(2, NODES))
        rows = [Row("label", one, name) for one in nodes if labels.get(one, 0) != name]
        return {"action": "label", "nodes": nodes, "class": number}, rows if name in ids else [
            Row("delete", label="not there")
        ]
    row = Row(kind, label=name, value={"rename": other, "merge": other, "delete": ""}.get(kind, "7"))
    more = {
        "rename": {"name": other},
        "merge": {"into": ids.get(other, 9_998)},
        "recolour": {"colour": 7},
        "delete": {},
    }[kind]
    return {"action": kind, "class": number} | more, [row]


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--actions", type=int, default=10_000)
    words.add_argument("--kills", type=int, default=40)
    words.add_argument("--seed", type=int, default=0)
    given = words.parse_args()
    draw, plain, began = random.Random(given.seed), Plain(), time.monotonic()
    kills = set(draw.sample(range(given.actions), min(given.kills, given.actions)))
    done = refused = landed = 0
    with tempfile.TemporaryDirectory() as folder:
        graph, journal = save_graph(Path(folder) / "g.npz", word_graph(NODES)), Path(folder) / "g.csv"
        server = Server(graph, journal)
        for turn in range(given.actions):
            ids = seen(server)["ids"]
            asked, rows = drawn(draw, plain, ids)
            if turn in kills:
                before, after = plain, copy.deepcopy(plain)
                if rows:
                    after.step(rows)
                threading.Timer(draw.random() * 0.01, server.kill).start()
                try:
                    server.ask("/api/act", asked)
                    told = True
                except (OSError, http.client.HTTPException, ValueError):
                    told = False
                while server.process.poll() is None:
                    time.sleep(0.005)
                server = Server(graph, journal)
                plain = after if same(server, after) else before
                assert same(server, plain), f"action {turn}: neither before nor after {asked}"
                assert not told or plain is after or not rows, f"action {turn}: {asked} was confirmed and is lost"
                landed += plain is after
                continue
            status, answer = server.ask("/api/act", asked)
            possible = plain.step(rows) if rows else True
            assert (status == 200) == possible, f"action {turn}: {asked} answered {status} {answer}"
            done, refused = done + possible, refused + (not possible)
            if turn % 10 == 0 or not possible:
                assert same(server, plain), f"action {turn}: {seen(server)} is not {expected(plain)}"
        assert same(server, plain)
        server.kill()
        lines = journal.read_text(encoding="utf-8").count("\n")
    print(f"{given.actions:,} actions: {done:,} done, {refused:,} refused as in the model, {len(kills)} times kill -9 ({landed} of those requests had been done); no difference. "
          f"{lines:,} lines of journal, {time.monotonic() - began:.0f} s, load {os.getloadavg()[0]:.1f}")  # fmt: skip


if __name__ == "__main__":
    main()
