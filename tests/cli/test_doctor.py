"""``naq doctor``: true where everything is there, and never a traceback where something is not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
import torch
from packaging.requirements import Requirement

import naq
from naq.cli import doctor

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def run_doctor(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "naq", "doctor", *words], capture_output=True, text=True, timeout=1200,
        env={**os.environ, **environment},
    )  # fmt: skip


@pytest.fixture
def as_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    """The requirements that pyproject.toml declares, as an installed distribution states them."""
    lines = list(PROJECT["dependencies"])
    for extra, packages in PROJECT["optional-dependencies"].items():
        lines += [f'{package}; extra == "{extra}"' for package in packages]
    monkeypatch.setattr(metadata, "requires", lambda _: lines)


def test_json_is_what_is_installed(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "table.npz").write_bytes(b"12345")
    done = run_doctor("--json", NAQ_CACHE=str(tmp_path / "cache"), NAQ_DATA=str(tmp_path / "none" / "yet"))
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["problems"] == []
    assert found["naq"]["version"] == naq.__version__
    assert found["packages"]["torch"]["installed"] == metadata.version("torch")
    assert found["devices"]["cpu"]["cores"] >= 1 and len(found["devices"]["cuda"]) == torch.cuda.device_count()
    assert found["threads"]["variables"]["MKL_CBWR"] == "AUTO,STRICT"
    cache, datasets = found["folders"]["cache"], found["folders"]["datasets"]
    assert (cache["files"], cache["bytes"], cache["writable"]) == (1, 5, True)
    assert (datasets["files"], datasets["bytes"], datasets["writable"]) == (0, 0, True)


def test_with_a_broken_torch_and_a_broken_folder(tmp_path: Path) -> None:
    """A broken torch, an unusable cache folder: one sentence each, exit code 1."""
    (tmp_path / "torch.py").write_text("raise ImportError('libtorch.so: not found')")
    (tmp_path / "file").write_text("")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = run_doctor(PYTHONPATH=path, NAQ_CACHE=str(tmp_path / "file"), NAQ_DATA=str(tmp_path / "file"))
    assert done.returncode == 1
    assert "Traceback" not in done.stdout + done.stderr
    assert "problem: devices are not known (ImportError: libtorch.so: not found)." in done.stdout


def test_every_requirement_is_understood(as_declared: None) -> None:
    assert set(doctor._packages("")) == {Requirement(one).name for one in PROJECT["dependencies"]}
    for extra, packages in PROJECT["optional-dependencies"].items():
        own = {Requirement(one).name for one in packages} - {"naq"}
        assert own <= set(doctor._packages(extra)), extra
    assert doctor._packages("")["torch"]["least"] == "2.6"


def test_extras_say_what_is_missing(as_declared: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        if name == "ray":
            raise metadata.PackageNotFoundError(name)
        return {"pyarrow": "16.1"}.get(name, "999")

    monkeypatch.setattr(metadata, "version", version)
    extras = doctor.extra_packages()
    assert set(extras) == set(PROJECT["optional-dependencies"])
    assert extras["ray"]["missing"] == ["ray"] and extras["ray"]["install"] == 'pip install "naq[ray]"'
    assert extras["io"]["missing"] == ["pyarrow"]
    assert extras["practice"]["missing"] == []
    assert extras["dev"]["missing"] == ["pyarrow", "ray"]
    assert doctor.diagnosis()["problems"] == []


def test_problems_name_the_fix(as_declared: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "version", lambda name: "1.0" if name == "numpy" else "999")
    (problem,) = doctor.diagnosis()["problems"]
    assert problem == 'numpy is 1.0, at least 1.26 is needed: pip install "numpy>=1.26".'


def test_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    def requires(name: str) -> list[str]:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "requires", requires)
    assert "what naq needs is not known" in doctor.diagnosis()["problems"][0]


@pytest.mark.parametrize(
    ("have", "least", "enough"),
    [
        ("2.13.0+cpu", "2.4", True),
        ("2.10", "2.9", True),
        ("3", "3.0.0", True),
        ("0.61.0rc1", "0.60", True),
        ("2.8", "2.9", False),
    ],
)
def test_versions_are_compared_by_number(have: str, least: str, enough: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "requires", lambda _: [f"torch>={least}"])
    monkeypatch.setattr(metadata, "version", lambda _: have)
    assert doctor._packages("")["torch"]["enough"] is enough


def test_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("abc")
    assert not doctor.folder_size(tmp_path / "file" / "below")["writable"]
    assert doctor.folder_size(tmp_path) == {"folder": str(tmp_path), "files": 1, "bytes": 3, "writable": True}
