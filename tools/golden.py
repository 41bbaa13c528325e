"""Golden numbers: what this code computes on one small graph, kept in tests/golden.json and compared with it.

``python tools/golden.py`` compares, prints what differs and exits with 1 if anything does; ``--write`` replaces the
file.

Every entry has a hash of its exact bytes. If this process computes as the one that wrote the file (processor,
instruction set, MKL's mode, versions of the numeric libraries; always with one thread), all hashes have to be
equal. Otherwise the last bit of a float may differ, and an entry is compared by its kind:

- ``exact``: made of integers and text alone; by its hash.
- ``float``: by shape and eight sums of its values with signs that integer arithmetic gives, each within 1e-3 plus
  3e-2 of the norm of the array (a short training of TENT moves them by 1e-2 from one instruction set to another).
- ``accuracy``: the mean over tasks, within 0.05.
- ``chosen``: integers and text that floats decide, such as the ids of neighbours; not at all."""

from __future__ import annotations

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from hashlib import blake2b
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FILE = ROOT / "tests" / "golden.json"
sys.path.insert(0, str(ROOT / "src"))

from naq.threads import prepare_process  # noqa: E402

# Before NumPy and torch are imported; one thread in all pools, since TEG's last bits depend on their number.
os.environ |= {f"{pool}_NUM_THREADS": "1" for pool in ("OMP", "MKL", "OPENBLAS", "NUMBA")}
prepare_process()

import numpy as np  # noqa: E402
import scipy.sparse as sp  # noqa: E402

import naq  # noqa: E402

Entry = dict[str, Any]
CLASSES, EACH, WORDS = 16, 25, 240
NODES = CLASSES * EACH
EPISODES = ("naq-feat", "naq-diff", "supervised", "g-umtra")
PLANS = ("label-scarcity", "beyond-accuracy", "metrics")
SMALL = {
    "cosmic": {"hidden": 64},
    "afgrl": {"hidden": 64, "predictor": 64, "latent": 32, "clusters": 16, "runs": 2, "refresh": 1},
    "bgrl": {"hidden": 64, "latent": 32}, "cola": {"hidden": 64, "latent": 32}, "sugrl": {"hidden": 64, "latent": 32},
    "vnt": {"latent": 16, "roles": 16, "steps": 10},
}  # fmt: skip
"""Options by the last part of a method's name, where its own make it slow on a small graph."""


def vector_table(vectors: np.ndarray, k: int, exact: bool) -> naq.NeighborTable:
    """The one place that knows where neighbours of vectors are found."""
    from naq.neighbors import vector_neighbors

    return vector_neighbors(vectors.copy(), k, exact=exact)  # torch warns of arrays that cannot be written to


def arithmetic() -> dict[str, Any]:
    """What the last bits of floats depend on."""
    from naq.threads import arithmetic

    fields = dict(line.split(":", 1) for line in Path("/proc/cpuinfo").read_text().splitlines() if ":" in line)
    known = {name.strip(): value.strip() for name, value in fields.items()}
    cpu = ", ".join(f"{key} {known.get(key, 'unknown')}" for key in ("model name", "cpu family", "model"))
    libraries = {name: version(name) for name in ("torch", "numpy", "scipy", "scikit-learn", "numba")}
    return {**arithmetic(), "cpu": cpu, **libraries}


# Entries


def hashed(*values: Any) -> str:
    """Of arrays by type, shape and bytes, whole numbers of any width alike; of all else as JSON."""
    digest = blake2b(digest_size=12)
    for value in values:
        if isinstance(value, np.ndarray) and value.dtype.kind in "fiub":
            wide = np.ascontiguousarray(value, dtype=np.int64 if value.dtype.kind in "iub" else value.dtype)
            digest.update(f"{wide.dtype.str}{wide.shape}".encode() + wide.tobytes())
        elif isinstance(value, bytes):
            digest.update(value)
        else:
            plain = value.tolist() if isinstance(value, np.ndarray) else value
            digest.update(json.dumps(plain, sort_keys=True).encode())
    return digest.hexdigest()


def exact(*values: Any, shown: Any = None) -> Entry:
    """Made of integers and text; ``shown`` is for the reader."""
    return {"kind": "exact", "hash": hashed(*values), **({} if shown is None else {"shown": shown})}


def chosen(*values: Any, shown: Any = None) -> Entry:
    """Integers and text that floats decide."""
    return {**exact(*values, shown=shown), "kind": "chosen"}


def floats(array: np.ndarray) -> Entry:
    """The hash, and what another processor has to come close to."""
    flat = np.asarray(array, dtype=np.float64).ravel()
    places = np.arange(1, len(flat) + 1, dtype=np.uint64)
    factors = np.arange(3, 19, 2, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    sums = [float(np.where((places * f) >> np.uint64(63), -flat, flat).sum()) for f in factors]
    rounded = {"norm": round(float(np.sqrt((flat**2).sum())), 6), "sums": [round(s, 6) for s in sums]}
    return {"kind": "float", "hash": hashed(array), "shape": list(array.shape), **rounded}


def accuracy(per_task: np.ndarray) -> Entry:
    return {"kind": "accuracy", "hash": hashed(per_task), "mean": round(float(per_task.mean()), 6)}


# Inputs, by integer arithmetic


def planted_graph(dense: bool = False) -> naq.Graph:
    """Classes of equal size with edges and words of their own; the last nodes have no edges, one has no words."""
    draw = np.random.Generator(np.random.PCG64(20240717)).integers
    labels = np.arange(NODES) % CLASSES
    ends = draw(0, NODES, size=(3, 6 * NODES))
    inside = ends[2] % 4 != 0
    ends[1] = np.where(inside, (ends[1] // CLASSES) * CLASSES + labels[ends[0]], ends[1]) % NODES
    kept = (ends[:2] < NODES - 3).all(axis=0) & (ends[2] % 3 != 1)
    rows = np.repeat(np.arange(NODES), 14)
    own = labels[rows] * (WORDS // CLASSES) + draw(0, 2 * WORDS // CLASSES, size=rows.size)
    words = np.where(draw(0, 5, size=rows.size) < 2, own, draw(0, WORDS, size=rows.size)) % WORDS
    values = np.where(rows == NODES - 1, 0, draw(1, 4, size=rows.size))
    counts = sp.coo_array((values, (rows, words)), shape=(NODES, WORDS)).toarray()
    if dense:
        counts = counts[:, ::8] * 8 + counts[:, 1::8] - counts[:, 2::8] * 3 + 1
    return naq.Graph(
        ends[:2, kept],
        counts.astype(np.float32) if dense else sp.csr_array(counts),
        labels,
        names=[f"node-{i:03d}" for i in range(NODES)],
        class_names=[f"class {c:02d}" for c in range(CLASSES)],
        name="planted",
        nodes=NODES,
    )


def made_table(width: int) -> naq.NeighborTable:
    """A table of neighbours without floats; some entries are missing."""
    ids = (np.arange(NODES)[:, None] * 7 + np.arange(1, width + 1) ** 2) % NODES
    ids[ids == np.arange(NODES)[:, None]] = 0
    ids[::9, width // 2 :] = -1
    return naq.NeighborTable(ids, np.where(ids < 0, 0.0, 1.0))


def save_graph(path: Path, graph: naq.Graph) -> None:
    """The documented format of a graph file."""
    a, x = graph.adjacency, graph.features
    np.savez(
        path, adj_indptr=a.indptr, adj_indices=a.indices, adj_shape=np.array(a.shape), labels=graph.labels,
        attr_indptr=x.indptr, attr_indices=x.indices, attr_data=x.data, attr_shape=np.array(x.shape),
        names=graph.names, class_names=graph.class_names,
    )  # fmt: skip


def save_tasks(path: Path, graph: naq.Graph, split: naq.ClassSplit) -> None:
    """A task file with few tasks, so that runs are short."""
    arrays = {f"{part}_classes": np.array(getattr(split, part)) for part in ("base", "valid", "test")}
    for way in (3, 5):
        for part, count in (("valid", 10), ("test", 40)):
            tasks = naq.sample_tasks(graph, way=way, count=count, classes=getattr(split, part), part=part)
            arrays |= {f"{way}way_1shot_{part}_{name}": getattr(tasks, name) for name in ("support", "query")}
    np.savez(path, **arrays)


def naq_command(*words: str, folder: str = ".") -> str:
    """What the command line prints."""
    found = os.environ.get("PYTHONPATH")
    paths = os.pathsep.join([str(ROOT / "src"), *([found] if found else [])])
    environment = {**os.environ, "PYTHONPATH": paths, "NAQ_DATA": str(Path(folder).resolve() / "no-data")}
    done = subprocess.run(
        [sys.executable, "-m", "naq", *words], cwd=folder, env=environment, capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(f"naq {' '.join(words)} failed: {done.stderr}")
    return done.stdout


# Rooms


def inputs_and_draws(graph: naq.Graph) -> dict[str, Entry]:
    """The graph itself, splits and tasks."""
    x = graph.features
    found = {
        "graph": exact(graph.adjacency.indptr, graph.adjacency.indices, x.indptr, x.indices, x.data, graph.labels),
        "graph/dense": exact(planted_graph(dense=True).features),
    }
    for seed in (0, 1):
        split = naq.split_classes(graph, valid=5, test=5, seed=seed)
        found[f"split/seed {seed}"] = exact([split.base, split.valid, split.test])
    for way, shot, seed in ((3, 1, 0), (5, 5, 0), (5, 1, 7)):
        tasks = naq.sample_tasks(graph, way=way, shot=shot, count=50, seed=seed, classes=split.test, part="valid")
        found[f"tasks/{way}-way {shot}-shot seed {seed}"] = exact(tasks.support, tasks.query)
    return found


def neighbours(graph: naq.Graph) -> dict[str, Entry]:
    """Every kind of table: ids and scores."""
    dense = planted_graph(dense=True)
    tables = {}
    for metric in ("cosine", "jaccard", "euclidean"):
        for search in ("exact", "approximate"):
            tables[f"feature/{metric}/{search}"] = naq.feature_neighbors(graph, 8, metric=metric, search=search)
        if metric != "jaccard":
            tables[f"feature/{metric}/dense"] = naq.feature_neighbors(dense, 8, metric=metric)
    for fill in ("none", "lowest", "random"):
        tables[f"feature/fill {fill}"] = naq.feature_neighbors(graph, 200, fill=fill)
    for loops in (True, False):
        for method in ("exact", "push"):
            name = f"diffusion/{'with' if loops else 'without'} loops/{method}"
            tables[name] = naq.diffusion_neighbors(graph, 8, self_loops=loops, method=method)
    for fill in ("lowest", "random", "feature"):
        tables[f"diffusion/fill {fill}"] = naq.diffusion_neighbors(graph, 8, fill=fill)
    for search in ("exact", "approximate"):
        tables[f"vectors/{search}"] = vector_table(dense.features, 8, search == "exact")
    found = {}
    for name, table in tables.items():
        found[f"neighbours/{name}/ids"] = chosen(table.ids)
        found[f"neighbours/{name}/scores"] = floats(table.scores)
    return found


def episodes(graph: naq.Graph) -> dict[str, Entry]:
    """Of a table without floats, of both kinds of neighbours, of labels, and on an augmented graph."""
    table, base = made_table(12), naq.split_classes(graph, valid=5, test=5).base
    drawn = {
        "naq": naq.naq_episodes(table, way=5, queries=6, count=64),
        "naq/3-shot": naq.naq_episodes(table, way=3, shot=3, queries=6, count=64, seed=3),
        "naq/drop overlap": naq.naq_episodes(table, way=5, queries=6, count=64, drop_overlap=True),
        "naq/drop random": naq.naq_episodes(table, way=5, queries=6, count=64, drop_random=True),
        "naq/apart": naq.naq_episodes(table, way=5, queries=6, count=64, apart=12),
        "supervised": naq.supervised_episodes(graph.labels, base, way=5, shot=2, count=64),
        "umtra": naq.umtra_episodes(NODES, way=5, views=2, count=64),
    }
    found = {f"episodes/{name}": exact(e.support, e.query, e.mask) for name, e in drawn.items()}
    for name, near in (("features", naq.feature_neighbors), ("diffusion", naq.diffusion_neighbors)):
        e = naq.naq_episodes(near(graph, 10), count=64, apart=10, drop_overlap=True)
        found[f"episodes/naq/{name}"] = chosen(e.support, e.query, e.mask)
    return found


def heads(graph: naq.Graph, split: naq.ClassSplit) -> dict[str, Entry]:
    """Every head on one embedding of integers."""
    vectors = planted_graph(dense=True).features
    listed = json.loads(naq_command("list", "heads", "--json"))
    facts = {h["name"]: h["options"] for h in listed}
    found = {"heads": exact(list(facts), facts, shown=facts)}
    for shot in (1, 5):
        tasks = naq.sample_tasks(graph, way=5, shot=shot, count=60, classes=split.test)
        for head in (h["name"] for h in listed):
            found[f"head/{head}/{shot}-shot"] = accuracy(naq.evaluate(vectors, tasks, head).per_task)
    return found


def methods(graph: naq.Graph, split: naq.ClassSplit, tasks: Path) -> dict[str, Entry]:
    """A short run of every method; of some the other heads and unbalanced queries, drawn tasks, and refined vectors."""
    listed = json.loads(naq_command("list", "methods", "--json"))
    facts = {m["name"]: {key: m[key] for key in ("labels", "inductive", "head", "options")} for m in listed}
    found = {"methods": exact(facts, shown=facts)}
    for method in listed:
        name = method["name"]
        way = (3, 5)[len(name) % 2]
        options = {**SMALL.get(name.rpartition("/")[2], {}), **({"epochs": 2} if "epochs" in method["options"] else {})}
        schedule = {"episodes": 64, "evaluate_every": 32} if name.partition("/")[0] in EPISODES else {}
        result = naq.run(graph, name, way=way, tasks=tasks, cache=None, baseline=False, options=options, **schedule)
        found[f"method/{name}/accuracy"] = accuracy(result.per_task)
        if result.embedding is not None:
            found[f"method/{name}/vectors"] = floats(result.embedding)
        if name in ("smooth", "naq-feat/protonet"):
            others = {head: e for head, e in result.evaluations.items() if e is not result.main}
            found |= {f"method/{name}/accuracy/{head}": accuracy(e.per_task) for head, e in others.items()}
    drawn = naq.run(
        graph,
        "untrained",
        split=split,
        way=3,
        shot=5,
        seed=1,
        head="prototype",
        features="tfidf",
        refine=True,
        cache=None,
    )
    found["drawn tasks/accuracy"] = accuracy(drawn.per_task)
    found["drawn tasks/vectors"] = floats(drawn.embedding)
    found |= {f"drawn tasks/baseline/{head}": accuracy(e.per_task) for head, e in drawn.baseline.items()}
    found["embed/untrained refined"] = floats(naq.embed(graph, "untrained", refine=True, seed=3))
    return found


def classifier(graph: naq.Graph, folder: Path) -> dict[str, Entry]:
    """The classifier in Python and on the command line."""
    nodes = [int(n) for c in range(5) for n in np.flatnonzero(graph.labels == c)[:2]]
    labels = {f"node-{n:03d}": f"class {graph.labels[n]:02d}" for n in nodes}
    with (folder / "few.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("node", "class"), *labels.items()])
    found = {}
    for name, options in (("default", {}), ("smooth, unknown", {"method": "smooth", "unknown": True})):
        model = naq.FewShotNodeClassifier(**options).fit(graph)
        found[f"classifier/{name}/first suggestions"] = chosen(model.suggest(10))
        predicted = model.set_labels(labels).predict()
        expected = model.expected_accuracy()
        found[f"classifier/{name}/vectors"] = floats(model.transform())
        found[f"classifier/{name}/classes"] = chosen(predicted, shown=predicted[:5].tolist())
        found[f"classifier/{name}/chances"] = floats(model.predict_proba())
        found[f"classifier/{name}/sets"] = chosen(model.prediction_sets())
        found[f"classifier/{name}/expected accuracy"] = floats(np.array([expected.value, expected.low, expected.high]))
        found[f"classifier/{name}/suggestions"] = chosen(model.suggest(10), shown=model.suggest(5).tolist())
    save_graph(folder / "planted.npz", graph)
    naq_command("predict", "planted.npz", "--labels", "few.csv", "--out", "predictions.csv", folder=str(folder))
    written = (folder / "predictions.csv").read_bytes()
    found["predict"] = chosen(written, shown=written.decode().splitlines()[:4])
    said = json.loads(naq_command("suggest", "planted.npz", "--labels", "few.csv", "--json", folder=str(folder)))
    found["suggest"] = chosen(said, shown=said[:3])
    return found


def plans(folder: Path) -> dict[str, Entry]:
    """What experiments would compute: the first cell whole, of the others what differs from the one before."""
    found = {}
    for name in PLANS:
        printed = naq_command("reproduce", name, "--dataset", "debian", "--plan", "--json", folder=str(folder))
        cells = [(cell["measurement"], cell["config"]) for cell in json.loads(printed)["cells"]]
        steps = [{**cells[0][1], "measurement": cells[0][0]}] if cells else []
        for (_, before), (measurement, config) in pairwise(cells):
            step = {key: value for key, value in config.items() if key not in before or before[key] != value}
            step |= {f"without {key}": True for key in before if key not in config}
            steps.append({**step, "measurement": measurement})
        found[f"plan/{name}"] = exact(cells, shown=steps)
    return found


def golden() -> dict[str, Entry]:
    """All entries by name."""
    graph = planted_graph()
    split = naq.split_classes(graph, valid=5, test=5)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        save_tasks(folder / "tasks.npz", graph, split)
        rooms = {
            "draws": lambda: inputs_and_draws(graph), "neighbours": lambda: neighbours(graph),
            "episodes": lambda: episodes(graph), "heads": lambda: heads(graph, split),
            "methods": lambda: methods(graph, split, folder / "tasks.npz"),
            "classifier": lambda: classifier(graph, folder), "plans": lambda: plans(folder),
        }  # fmt: skip
        found: dict[str, Entry] = {}
        for room, entries in rooms.items():
            start = time.perf_counter()
            found |= entries()
            print(f"{room}: {time.perf_counter() - start:.1f} s", file=sys.stderr)
    return found


# Comparison


def differs(old: Entry, new: Entry, same: bool) -> str:
    """What is wrong with the new entry, or nothing."""
    if old["kind"] != new["kind"]:
        return f"is {new['kind']}, was {old['kind']}"
    if old["hash"] == new["hash"]:
        return ""
    facts = [{key: value for key, value in entry.items() if key not in ("kind", "hash")} for entry in (old, new)]
    words = first_difference(*facts) or "other bytes"
    if same or old["kind"] == "exact":
        return words
    if old["kind"] == "accuracy":
        return words if abs(old["mean"] - new["mean"]) > 0.05 else ""
    if old["kind"] == "float":
        near = old["shape"] == new["shape"] and np.allclose(old["sums"], new["sums"], 0, 1e-3 + 3e-2 * old["norm"])
        return "" if near else words
    return ""


def first_difference(old: Any, new: Any, place: str = "") -> str:
    """Where two JSON values differ first, and how; nothing where they are equal."""
    if isinstance(old, dict) and isinstance(new, dict):
        pairs = [(key, old.get(key), new.get(key)) for key in {**old, **new}]
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        pairs = [(index, one, two) for index, (one, two) in enumerate(zip(old, new))]
    else:
        one, two = (json.dumps(value)[:160] for value in (old, new))
        return "" if old == new else f"{place.strip()} was {one}, is {two}"
    return next((words for key, one, two in pairs if (words := first_difference(one, two, f"{place} {key}"))), "")


def compare(stored: Mapping[str, Any], entries: Mapping[str, Entry], here: Mapping[str, Any]) -> list[str]:
    """One line for every difference."""
    old, same = stored["entries"], stored["arithmetic"] == here
    lines = [f"{name}: missing now" for name in old if name not in entries]
    lines += [f"{name}: not in the file" for name in entries if name not in old]
    for name in old:
        if name in entries and (words := differs(old[name], entries[name], same)):
            lines.append(f"{name}: {words}")
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare with tests/golden.json, or write it.")
    parser.add_argument("--write", action="store_true", help="replace the file")
    write = parser.parse_args().write
    start = time.perf_counter()
    entries, here = golden(), arithmetic()
    print(f"{len(entries)} entries in {time.perf_counter() - start:.0f} s", file=sys.stderr)
    if write:
        lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(entry)}" for name, entry in sorted(entries.items()))
        FILE.write_text(f'{{\n"arithmetic": {json.dumps(here)},\n"entries": {{\n{lines}\n}}\n}}\n')
        print(f"Written: {FILE.relative_to(ROOT)}")
        return 0
    stored = json.loads(FILE.read_text())
    lines = compare(stored, entries, here)
    how = "by hashes" if stored["arithmetic"] == here else "by summaries: another arithmetic"
    print("\n".join(lines) or f"No difference, compared {how}.")
    if lines:
        print(f"{len(lines)} of {len(entries)} entries differ, compared {how}.")
    return 1 if lines else 0


if __name__ == "__main__":
    raise SystemExit(main())
