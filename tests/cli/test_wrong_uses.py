"""Wrong uses of the command line, some hundreds: each ends in one sentence and exit code 2, and leaves nothing behind."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest

from damaged_files import small_graph
from naq.cli.main import main
from naq.errors import LONGEST
from naq.io import save_graph

HUGE, LONG, ESCAPE = "1" + "0" * 30, "9" * 5000, "\x1b[31mred\x1b[0m\n"
WORDS = ("", "²", ESCAPE, "x" * 3000)
NO_INTEGER = ("", "²", "1.5", "one", "0x10", "1e3", LONG, ESCAPE, "--")
SMALL = ("-m", "naq-feat/protonet", "--way", "2", "--episodes", "16", "--no-cache")


def _table() -> list[tuple[str, ...]]:
    uses: list[tuple[str, ...]] = [
        (),
        ("nonsense",),
        (ESCAPE,),
        ("x" * 3000,),
        ("--nonsense",),
        ("run", "--nonsense"),
        ("run", "a", "b"),
    ]
    for command in ("run", "neighbors", "episodes", "suggest"):
        uses += [(command, path) for path in (
            "absent.npz", "absent", "fifo", "folder", "empty.npz", "junk.npz", "junk.mat", "junk.csv", "junk.parquet", "junk.graphml",
            "junk.zip", "tasks.npz", "/dev/null", "/dev/zero", "a\0b", "pyg:Nonsense", "pyg:", "~nobody/x", *WORDS[1:],
        )]  # fmt: skip
    for option in (
        "--way",
        "--shot",
        "--seed",
        "--episodes",
        "--epochs",
        "--patience",
        "--evaluate-every",
    ):
        uses += [("run", "g.npz", *SMALL, option, value) for value in NO_INTEGER]
    uses += [("run", "g.npz", *SMALL, "--way", v) for v in ("0", "1", "-5", "1000", HUGE)]
    uses += [("run", "g.npz", *SMALL, "--shot", v) for v in ("0", "-1", "1000", HUGE)]
    uses += [("run", "g.npz", *SMALL, "--episodes", v) for v in ("0", "-1", "1" + "0" * 12, HUGE)]
    uses += [("run", "g.npz", *SMALL, "--evaluate-every", v) for v in ("0", "-1")]
    uses += [("run", "g.npz", *SMALL, "--patience", "-1"), ("run", "g.npz", *SMALL, "--epochs", "3")]
    uses += [("run", "g.npz", *SMALL, "--seed", v) for v in ("-1", HUGE)]
    uses += [("run", "g.npz", *SMALL, "--device", v) for v in ("meta", "tpu", "cuda:99", "cpu:x", "xla", "mps", *WORDS)]
    for option in ("--method", "--head", "--features", "--select"):
        uses += [("run", "g.npz", option, value) for value in ("nonsense", *WORDS)]
    uses += [("run", "g.npz", *SMALL, "--set", v) for v in (
        "", "latent", "latent=", "=1", "latent=x", "latent=0", "latent=-1", "latent=1000000000", f"latent={HUGE}", "latent=1.5",
        "latent=true", "lr=nan", "lr=inf", "lr=-1", "lr=0", "lr=x", "nonsense=1", f"latent={LONG}", f"{ESCAPE}=1", "²=1",
    )]  # fmt: skip
    uses += [("run", "g.npz", *SMALL, "--episode", v) for v in (
        "", "queries", "queries=0", "queries=-1", "queries=x", f"queries={HUGE}", "queries=1000", "metric=nonsense", "way=0.5", "way=1",
        "way=1000", "shot=0", "apart=-1", "fill=nonsense", "drop_overlap=1", "nonsense=1", "queries=1000000000",
    )]  # fmt: skip
    uses += [("run", "g.npz", "-m", "naq-diff/protonet", "--way", "2", "--no-cache", "--episode", f"alpha={v}") for v in (
        "0", "1", "-1", "2", "1e-300", "x",
    )]  # fmt: skip
    uses += [
        ("run", "g.npz", *SMALL, "--out", v)
        for v in ("x" * 300, "g.npz", "g.npz/below", "/proc/none", "/dev/null/x", "a\0b")
    ]
    uses += [
        ("run", "g.npz", *SMALL, "--tasks", v) for v in ("absent", "junk.npz", "g.npz", "fifo", "folder", "x" * 300)
    ]
    uses += [("run", "g.npz", "--nodes", v) for v in ("absent.csv", "g.npz")]
    uses += [("neighbors", "g.npz", "-k", v) for v in (*NO_INTEGER, "0", "-1", "40", HUGE)]
    uses += [
        ("neighbors", "g.npz", "-k", "3", "--node", v)
        for v in ("²", "-1", "40", HUGE, LONG, ESCAPE, "", "nobody", "x" * 3000)
    ]
    uses += [("neighbors", "g.npz", "-k", "3", "--by", v) for v in ("nonsense", *WORDS)]
    uses += [("neighbors", "g.npz", "-k", "3", "--metric", v) for v in ("nonsense", *WORDS)]
    uses += [("neighbors", "g.npz", "-k", "3", "--by", "diffusion", "--alpha", v) for v in (
        "0", "1", "-1", "nan", "inf", "1e-300", "x", "", "²", LONG,
    )]  # fmt: skip
    uses += [("neighbors", "g.npz", "-k", "3", "--by", "diffusion", "--method", v) for v in ("nonsense", "")]
    uses += [("neighbors", "g.npz", "-k", "3", "--fill", v) for v in ("nonsense", "", "feature=1")]
    uses += [
        ("neighbors", "g.npz", "-k", "3", "--out", v)
        for v in ("x" * 300 + ".npz", "g.npz/x.npz", "folder", "/proc/x.npz")
    ]
    for option in ("--way", "--shot", "--queries", "--count", "--apart"):
        uses += [("episodes", "g.npz", option, value) for value in ("-1", "1.5", "²", LONG, HUGE)]
    uses += [
        ("episodes", "g.npz", "--way", "1"),
        ("episodes", "g.npz", "--way", "41"),
        ("episodes", "g.npz", "--count", "0"),
    ]
    uses += [
        ("import", path)
        for path in ("absent.csv", "fifo", "folder", "junk.csv", "empty.csv", "g.npz", "a\0b.csv", "x" * 300 + ".csv")
    ]
    uses += [("import", "edges.csv", *more) for more in (
        ("--out", "g.txt"), ("--out", "x" * 300 + ".npz"), ("--out", "g.npz/x.npz"), ("--nodes", "absent.csv"), ("--nodes", "fifo"),
        ("--nodes", "junk.csv"), ("--source", "nonsense"), ("--source", ESCAPE), ("--weight", "nonsense"), ("--label", "x"),
        ("--vector", "absent.npy"), ("--vector", "junk.npy"), ("--vector", "fifo.npy"),
    )]  # fmt: skip
    uses += [("predict", "g.npz", *more) for more in (
        (), ("--labels", "few.csv"), ("--labels", "absent.csv", "--out", "p.csv"), ("--labels", "fifo", "--out", "p.csv"),
        ("--labels", "junk.csv", "--out", "p.csv"), ("--labels", "empty.csv", "--out", "p.csv"),
        ("--labels", "few.csv", "--out", "x" * 300 + ".csv"), ("--labels", "few.csv", "--out", "folder"),
        *((("--labels", "few.csv", "--out", "p.csv", "--level", v)) for v in ("0", "1", "-1", "nan", "x", "2", "²")),
        *((("--labels", "few.csv", "--out", "p.csv", "--device", v)) for v in ("meta", "tpu")),
        *((("--labels", "few.csv", "--out", "p.csv", "--method", v)) for v in ("nonsense", "naq-feat/protonet", "", ESCAPE)),
    )]  # fmt: skip
    uses += [("suggest", "g.npz", "-k", v) for v in (*NO_INTEGER, "0", "-1")]
    uses += [("list", v) for v in ("nonsense", "²", ESCAPE, "x" * 3000)]
    uses += [("reproduce", *more) for more in (
        (), ("nonsense",), ("",), (ESCAPE,), ("label-noise", "--dataset", "absent.npz"), ("label-noise", "--dataset", "junk.npz"),
        ("label-noise", "--data", "absent"), ("label-noise", "--budget", "nonsense"), ("label-noise", "--seeds", "-1"),
        ("label-noise", "--seeds", HUGE), ("label-noise", "--episodes", "-1"), ("label-noise", "--workers", "0"),
        ("label-noise", "--workers", "x"), ("label-noise", "--engine", "nonsense"), ("label-noise", "--profile", "nonsense"),
        ("label-noise", "--set", "latent=1"), ("label-noise", "--set", "protonet.latent=x"), ("label-noise", "--set", "x.y=1"),
        ("label-noise", "--learner", "nonsense"), ("label-noise", "--head", "nonsense"), ("label-noise", "--features", "nonsense"),
        ("label-noise", "--select", "nonsense"), ("label-noise", "--json"), ("label-noise", "--episode", "nonsense=1"),
        ("label-noise", "--quick", "--budget", "full"), ("label-noise", "--way", "0"), ("label-noise", "--shot", "x"),
    )]  # fmt: skip
    uses += [
        ("report", path) for path in ("absent", "junk.npz", "fifo", "g.npz", "junk.zip", "empty.npz", "x" * 300, "a\0b")
    ]
    uses += [("report", "results", "--out", "folder"), ("report", "junk.zip", "--pack", "p.zip"), ("report", "damaged")]
    return list(dict.fromkeys(uses))


USES = _table()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("wrong")
    save_graph(place / "g.npz", small_graph())
    from naq.tasks import sample_tasks

    sample_tasks(small_graph(), way=2, shot=1, queries=3, count=5, seed=0).save(place / "tasks.npz")
    for name in ("npz", "mat", "csv", "parquet", "graphml", "zip", "npy"):
        (place / f"junk.{name}").write_bytes(np.random.default_rng(0).bytes(500))
    for name in ("fifo", "fifo.npy"):
        os.mkfifo(place / name)
    for name in ("empty.npz", "empty.csv"):
        (place / name).write_bytes(b"")
    for name in ("folder", "results/cells", "damaged"):
        (place / name).mkdir(parents=True)
    (place / "damaged" / "requests.json").write_text("[" * 100_000)
    (place / "edges.csv").write_text("source,target\na,b\nb,c\n")
    (place / "few.csv").write_text("node,class\nnode 0,a\nnode 1,b\n")
    return place


def test_there_are_three_hundred() -> None:
    assert len(USES) >= 300


@pytest.mark.parametrize("part", range(8))
def test_each_is_one_sentence_and_exit_code_2(
    part: int, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("NAQ_DATA", str(folder / "data"))
    monkeypatch.setenv("NAQ_CACHE", str(folder / "cache"))
    before = {p.relative_to(folder) for p in folder.rglob("*") if "cache" not in p.parts}
    wrong = []
    for words in USES[part::8]:
        monkeypatch.setattr(sys, "argv", ["naq", *words])
        try:
            main()
        except SystemExit as ended:
            code = ended.code
        except BaseException as error:
            code = f"{type(error).__name__}: {error}"
        shown = capsys.readouterr()
        *_, last = [*shown.err.splitlines(), ""] if not shown.err.strip() else shown.err.strip().splitlines()
        if words in ((), ("",)) and code == 2:
            continue  # the help
        fine = code == 2 and last.startswith("naq: ") and len(last) <= LONGEST + 10 and "\x1b" not in shown.err
        if not fine:
            wrong.append((tuple(word[:40] for word in words), str(code)[:300], last[:200]))
    left = {p.relative_to(folder) for p in folder.rglob("*") if "cache" not in p.parts} - before
    assert not wrong, "\n".join(map(str, wrong))
    assert not left, sorted(left)
