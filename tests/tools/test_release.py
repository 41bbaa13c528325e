"""What a release consists of: one version everywhere, a wheel with only what is needed, a lock of what is needed."""

from __future__ import annotations

import importlib.util
import io
import itertools
import re
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import naq

ROOT = Path(__file__).resolve().parents[2]


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_one_version() -> None:
    changes = re.findall(r"^## \[(.+?)\] - (?:\d{4}-\d\d-\d\d|unreleased)$", read("CHANGELOG.md"), re.M)
    cited = re.search(r"^version: (.+)$", read("CITATION.cff"), re.M)
    assert cited
    assert naq.__version__ == tomllib.loads(read("pyproject.toml"))["project"]["version"] == changes[0] == cited[1]


def test_a_wheel_has_what_is_needed_and_no_more(tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("check_wheel", ROOT / "tools" / "check_wheel.py")
    assert spec and spec.loader
    check = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(check)
    names = {*check.modules_of(ROOT / "src"), *check.DATA, "naq-0.1.0.dist-info/METADATA"}  # "*" is a name like others
    with tarfile.open(tmp_path / "naq.tar.gz", "w:gz") as sdist:
        sdist.addfile(tarfile.TarInfo("naq-0.1.0/src/naq/__init__.py"), io.BytesIO())
    for less, more in (("", ""), ("naq/py.typed", ""), ("", "tests/test_docs.py")):
        with zipfile.ZipFile(tmp_path / "naq.whl", "w") as wheel:
            for name in filter(None, [*(names - {less}), more]):
                wheel.writestr(name, "")
        if less or more:
            with pytest.raises(check.Failed, match=less or more):
                check.check_contents(tmp_path / "naq.whl", tmp_path / "naq.tar.gz")
        else:
            check.check_contents(tmp_path / "naq.whl", tmp_path / "naq.tar.gz")


def test_the_dockerfile_copies_what_is_not_ignored() -> None:
    allowed = {line[1:] for line in read(".dockerignore").splitlines() if line.startswith("!")}
    copied = {name for line in re.findall(r"^COPY (.+)$", read("Dockerfile"), re.M) for name in line.split()[:-1]}
    assert copied == allowed and all((ROOT / name).exists() for name in copied)


def test_everything_that_is_needed_is_locked_by_hash() -> None:
    """Each requirement at a version that it admits, with hashes for all but torch.

    The extra ``fuzz`` is apart: atheris has wheels for Linux on x86_64 alone, so ``make install`` of a lock with it
    would fail elsewhere. ``make fuzz`` installs it.
    """
    text = read("constraints.txt")
    entries = re.findall(r"^([\w.-]+)==([\w.]+)((?: \\\n {4}--hash=sha256:[0-9a-f]{64})*)$", text, re.M)
    locked = {canonicalize_name(name): version for name, version, _ in entries}
    assert len(entries) == len(locked) == text.count("==") and "://" not in text
    assert [name for name, _, hashes in entries if not hashes] == ["torch"]
    project = tomllib.loads(read("pyproject.toml"))
    extras = {name: needs for name, needs in project["project"]["optional-dependencies"].items() if name != "fuzz"}
    assert not any("fuzz" in Requirement(line).extras for needs in extras.values() for line in needs)
    for line in itertools.chain(
        project["project"]["dependencies"], project["build-system"]["requires"], *extras.values()
    ):
        one = Requirement(line)
        assert one.name == "naq" or locked[canonicalize_name(one.name)] in one.specifier, line
