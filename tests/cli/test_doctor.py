"""``naq doctor``: true where everything is there, and never a traceback where something is not."""

import json
import os
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import naq
from naq.cli import doctor

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def run_doctor(*words, **environment):
    return subprocess.run(
        [sys.executable, "-m", "naq", "doctor", *words], capture_output=True, text=True, timeout=1200,
        env={**os.environ, **environment},
    )  # fmt: skip


@pytest.fixture
def installed(monkeypatch):
    """The requirements of pyproject.toml as an installed distribution states them, and versions that a test chooses."""
    lines = list(PROJECT["dependencies"])
    for extra, packages in PROJECT["optional-dependencies"].items():
        lines += [f'{package}; extra == "{extra}"' for package in packages]
    versions = {}

    def version(name):
        if versions.get(name, "999") is None:
            raise metadata.PackageNotFoundError(name)
        return versions.get(name, "999")

    monkeypatch.setattr(metadata, "requires", lambda _: lines)
    monkeypatch.setattr(metadata, "version", version)
    return versions


def test_json_is_what_is_installed(tmp_path):
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "table.npz").write_bytes(b"12345")
    done = run_doctor("--json", NAQ_CACHE=str(tmp_path / "cache"), NAQ_DATA=str(tmp_path / "none" / "yet"))
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["problems"] == [] and found["naq"]["version"] == naq.__version__
    assert found["packages"]["torch"]["installed"] == metadata.version("torch")
    assert found["devices"]["cpu"]["cores"] >= 1 and found["threads"]["variables"]["MKL_CBWR"] == "AUTO,STRICT"
    for name, size in (("cache", (1, 5, True)), ("datasets", (0, 0, True))):
        assert tuple(found["folders"][name][part] for part in ("files", "bytes", "writable")) == size


def test_with_a_broken_torch_and_a_broken_folder(tmp_path):
    (tmp_path / "torch.py").write_text("raise ImportError('libtorch.so: not found')")
    (tmp_path / "file").write_text("")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = run_doctor(PYTHONPATH=path, NAQ_CACHE=str(tmp_path / "file"), NAQ_DATA=str(tmp_path / "file" / "below"))
    assert done.returncode == 1 and "Traceback" not in done.stdout + done.stderr
    problems = [line for line in done.stdout.splitlines() if line.startswith("problem: ")]
    for word in ("libtorch.so", "NAQ_CACHE", "NAQ_DATA"):
        assert any(word in line for line in problems), done.stdout


def test_every_requirement_is_understood(installed):
    assert set(doctor.packages_of("")) == {Requirement(one).name for one in PROJECT["dependencies"]}
    for extra, packages in PROJECT["optional-dependencies"].items():
        assert {Requirement(one).name for one in packages} - {"naq"} <= set(doctor.packages_of(extra)), extra


def test_what_is_missing_and_how_it_is_installed(installed):
    installed |= {"ray": None, "uvicorn": "0.1"}
    extras = doctor.extra_packages()
    assert set(extras) == set(PROJECT["optional-dependencies"])
    assert extras["ray"] | {"packages": {}} == {"packages": {}, "missing": ["ray"], "install": 'pip install "naq[ray]"'}
    assert extras["studio"]["missing"] == ["uvicorn"] and extras["dev"]["missing"] == ["ray", "uvicorn"]
    assert doctor.diagnosis()["problems"] == []
    installed["numpy"] = "1.0"
    (problem,) = doctor.diagnosis()["problems"]
    assert "numpy is 1.0" in problem and "pip install" in problem
