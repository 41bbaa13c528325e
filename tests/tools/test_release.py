"""What a release consists of: one version everywhere, a wheel with only what is needed, a Dockerfile that names files there are."""

from __future__ import annotations

import importlib.util
import io
import itertools
import re
import subprocess
import tarfile
import tomllib
import zipfile
from pathlib import Path
from types import ModuleType

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import naq

ROOT = Path(__file__).resolve().parents[2]


def tool(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def archives(
    folder: Path, left_out: str = "", more: str = "", in_sdist: str = "src/naq/__init__.py"
) -> tuple[Path, Path]:
    """A wheel and an sdist with empty files of the right names."""
    check = tool("check_wheel")
    data = set(check.DATA)  # "*" is a file name like any other
    names = {*check.modules_of(ROOT / "src"), *data, "naq-0.1.0.dist-info/METADATA"}
    with zipfile.ZipFile(folder / "naq.whl", "w") as wheel:
        for name in sorted(names - {left_out} | set(filter(None, [more]))):
            wheel.writestr(name, "")
    with tarfile.open(folder / "naq.tar.gz", "w:gz") as sdist:
        sdist.addfile(tarfile.TarInfo(f"naq-0.1.0/{in_sdist}"), io.BytesIO())
    return folder / "naq.whl", folder / "naq.tar.gz"


def test_contents_are_checked(tmp_path: Path) -> None:
    tool("check_wheel").check_contents(*archives(tmp_path))


@pytest.mark.parametrize(
    "wrong",
    [
        {"left_out": "naq/py.typed"},
        {"left_out": "naq/heads/transductive.py"},
        {"left_out": "naq_studio/static/*"},
        {"more": "tests/test_docs.py"},
        {"more": "naq/io/bundled/notes.txt"},
        {"in_sdist": "tests/test_docs.py"},
    ],
    ids=str,
)
def test_what_is_missing_or_too_much_is_named(tmp_path: Path, wrong: dict[str, str]) -> None:
    checks = tool("check_wheel")
    with pytest.raises(checks.Failed, match=re.escape(next(iter(wrong.values())))):
        checks.check_contents(*archives(tmp_path, **wrong))


def test_one_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    changes = re.findall(
        r"^## \[(.+?)\] - (\d{4}-\d\d-\d\d|unreleased)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.M
    )
    cited = re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.M)
    assert cited
    assert naq.__version__ == project["version"] == changes[0][0] == cited[1]
    headings = re.findall(r"^## .*$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.M)
    assert len(changes) == len(headings) - (headings[0] == "## [Unreleased]")


def test_the_dockerfile_runs_only_steps_of_the_repository() -> None:
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    allowed = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    copied = [name for line in re.findall(r"^COPY (.+)$", text, re.M) for name in line.split()[:-1]]
    assert copied and set(copied) == set(allowed) and all((ROOT / name).exists() for name in copied)
    steps = re.findall(r"^RUN (.+)$", text, re.M)
    assert steps == ["sh tools/container.sh install", "sh tools/container.sh check"]
    assert subprocess.run(["sh", "-n", ROOT / "tools" / "container.sh"]).returncode == 0
    said = subprocess.run(["sh", ROOT / "tools" / "container.sh", "other"], capture_output=True, text=True)
    assert (said.returncode, said.stderr) == (2, "usage: sh tools/container.sh install|check\n")


def test_everything_that_is_needed_is_locked_by_hash() -> None:
    """Each requirement at a version that it admits, with hashes for all but torch, and no word about where files come from."""
    text = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    entries = re.findall(r"^([\w.-]+)==([\w.]+)((?: \\\n {4}--hash=sha256:[0-9a-f]{64})*)$", text, re.M)
    locked = {canonicalize_name(name): version for name, version, _ in entries}
    assert len(entries) == len(locked) == text.count("==") and "://" not in text
    assert [name for name, _, hashes in entries if not hashes] == ["torch"]
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    lines = [*pyproject["project"]["dependencies"], *pyproject["build-system"]["requires"]]
    extras = pyproject["project"]["optional-dependencies"]
    del extras["fuzz"]  # of which no version is for every Python; make install leaves it out
    for line in [*lines, *itertools.chain(*extras.values())]:
        one = Requirement(line)
        assert one.name == "naq" or locked[canonicalize_name(one.name)] in one.specifier, line
    plain = tool("check_wheel").versions().splitlines()
    assert plain == [f"{name}=={version}" for name, version, _ in entries]
    step = re.search(r"sed -n '.+'", (ROOT / "tools" / "container.sh").read_text(encoding="utf-8"))
    assert step
    said = subprocess.run(["sh", "-c", f"{step[0]} constraints.txt"], cwd=ROOT, capture_output=True, text=True)
    assert said.stdout.splitlines() == plain


@pytest.mark.parametrize(
    ("wheel", "fits"),
    [
        ("a-1-py3-none-any.whl", True),
        ("a-1-py2.py3-none-any.whl", True),
        ("a-1-cp311-cp311-manylinux_2_28_x86_64.whl", True),
        ("a-1-cp313-cp313-macosx_14_0_arm64.whl", True),
        ("a-1-cp39-abi3-win_amd64.whl", True),
        ("a-1-cp310-cp310-manylinux_2_28_x86_64.whl", False),
        ("a-1-cp313-cp313t-manylinux_2_28_x86_64.whl", False),
        ("a-1-cp314-abi3-manylinux_2_28_x86_64.whl", False),
        ("a-1-pp311-pypy311_pp73-manylinux_2_28_x86_64.whl", False),
        ("a-1-cp312-cp312-musllinux_1_2_x86_64.whl", False),
        ("a-1-cp312-cp312-win32.whl", False),
    ],
)
def test_the_lock_has_wheels_of_our_pythons_and_systems(wheel: str, fits: bool) -> None:
    assert tool("lock").fits(wheel) is fits
