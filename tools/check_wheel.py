"""Checks a release: ``make release-check``, which builds the wheel and the sdist first.

What is inside is compared with a list. Then, for every Python that is found, the wheel is installed into an empty
environment at the versions of constraints.txt and used from an empty folder: ``naq doctor``, ``import``, ``predict``,
``run`` and ``naq studio --check``; the extras are resolved. If torch would bring CUDA, only the parts that need no
torch are tried (``--cuda`` fetches its gigabytes).
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from email import message_from_bytes
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VERSIONS = ("3.11", "3.12", "3.13")
PACKAGES = ("naq", "naq_paper", "naq_scale", "naq_studio")
DATA = (
    *(f"{package}/py.typed" for package in PACKAGES), "naq/io/bundled/debian.npz", "naq/io/bundled/debian.tasks.npz",
    "naq/classifier/templates/*", "naq_paper/experiments/paper/*.csv", "naq_paper/experiments/paper/*.toml",
    "naq_paper/experiments/profiles/*.toml", "naq_paper/report/templates/*", "naq_studio/static/*",
)  # fmt: skip
"""What a wheel holds in addition to modules and its metadata."""
METADATA = ("METADATA", "WHEEL", "RECORD", "entry_points.txt", "top_level.txt", "licenses/LICENSE")
SDIST = ("LICENSE", "MANIFEST.in", "PKG-INFO", "README.md", "pyproject.toml", "setup.cfg", "src/*")
LARGEST = 6_000_000
EDGES = "a,b\n" + "".join(
    f"{group}{i},{group}{(i + step) % 12}\n" for group in "xy" for i in range(12) for step in (1, 2, 3)
)
NODES = "id,text\n" + "".join(
    f"{group}{i},{group} word{group}{i % 4} word{group}{i % 3}\n" for group in "xy" for i in range(12)
)
LABELS = "node,class\nx0,first\nx5,first\ny0,second\ny5,second\n"


class Failed(Exception):
    """A check that did not hold."""


def modules_of(folder: Path) -> list[str]:
    """Python files of the packages, as a wheel names them."""
    return [path.relative_to(folder).as_posix() for package in PACKAGES for path in (folder / package).rglob("*.py")]


def check_contents(wheel: Path, sdist: Path) -> None:
    """Only what is needed, all of it, and not too large."""
    names = [name for name in zipfile.ZipFile(wheel).namelist() if not name.endswith("/")]
    modules = set(modules_of(ROOT / "src"))
    missing = sorted(modules - set(names)) + [one for one in DATA if not any(fnmatch(name, one) for name in names)]
    info = [name for name in names if ".dist-info/" in name]
    data = [name for name in names if any(fnmatch(name, pattern) for pattern in DATA)]
    odd = sorted(set(names) - modules - set(info) - set(data))
    odd += [name for name in info if name.partition(".dist-info/")[2] not in METADATA]
    with tarfile.open(sdist) as archive:
        inside = [member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()]
    odd += [f"sdist: {name}" for name in inside if not any(fnmatch(name, pattern) for pattern in SDIST)]
    if missing or odd:
        raise Failed(f"missing: {', '.join(missing) or 'nothing'}; not expected: {', '.join(odd) or 'nothing'}")
    for path, count in ((wheel, len(names)), (sdist, len(inside))):
        print(f"{path.name}: {path.stat().st_size / 1e6:.2f} MB, {count} files")
        if path.stat().st_size > LARGEST:
            raise Failed(f"{path.name} is larger than {LARGEST / 1e6:.0f} MB")


def find_pythons() -> dict[str, str]:
    """Version to interpreter: those on the path, and those that pyenv has."""
    found = {}
    for version in VERSIONS:
        places = [
            shutil.which(f"python{version}"),
            *sorted(map(str, Path.home().glob(f".pyenv/versions/{version}*/bin/python"))),
        ]
        for place in filter(None, places):
            said = subprocess.run(
                [place, "-c", "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2])"],
                capture_output=True,
                text=True,
            )
            if said.returncode == 0 and said.stdout.strip() == version:
                found[version] = place
                break
    return found


def run(*words: str | Path, cwd: Path, codes: tuple[int, ...] = (0,)) -> str:
    """The output of a command, which has to end with one of ``codes`` and without a traceback."""
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "PYTHONHOME")}
    done = subprocess.run(
        list(map(str, words)),
        cwd=cwd,
        capture_output=True,
        text=True,
        env={**environment, "NAQ_CACHE": str(cwd / "cache")},
    )
    if done.returncode not in codes or "Traceback" in done.stderr:
        raise Failed(
            f"{' '.join(map(str, words))} ended with {done.returncode}:\n{done.stdout[-1500:]}\n{done.stderr[-1500:]}"
        )
    return done.stdout


def pip_install(python: Path) -> tuple[str | Path, ...]:
    return (python, "-m", "pip", "--quiet", "--disable-pip-version-check", "install", "-c", "versions.txt")


def extras(wheel: Path) -> list[str]:
    """Names of the extras that the wheel declares."""
    archive = zipfile.ZipFile(wheel)
    metadata = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
    return message_from_bytes(archive.read(metadata)).get_all("Provides-Extra", [])


def versions() -> str:
    """constraints.txt without its hashes: pip wants one of everything, also of the wheel, once it sees one."""
    lock = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    return "".join(f"{pin}\n" for pin in re.findall(r"^[^ #\n]+==[^ \n]+", lock, re.M))


def check_python(python: str, wheel: Path, cuda: bool = False) -> str:
    """Install and use the wheel with this interpreter; what was tried. ``cuda``: also if torch brings CUDA."""
    with tempfile.TemporaryDirectory(prefix="naq-wheel-") as folder:
        place = Path(folder)
        (place / "versions.txt").write_text(versions(), encoding="utf-8")
        run(python, "-m", "venv", place / "venv", cwd=place)
        mine = place / "venv" / "bin" / "python"
        pip = pip_install(mine)
        plan = json.loads(run(*pip, "--dry-run", "--report", "-", f"{wheel}[{','.join(extras(wheel))}]", cwd=place))
        wanted = sorted(item["metadata"]["name"].lower() for item in plan["install"])
        if not cuda and any(name.startswith(("nvidia-", "cuda-")) for name in wanted):
            run(*pip, "--no-deps", wheel, cwd=place)
            run(*pip, "typer", "rich", cwd=place)
            run(place / "venv" / "bin" / "naq", "--help", cwd=place)
            found = json.loads(run(place / "venv" / "bin" / "naq", "doctor", "--json", cwd=place, codes=(1,)))
            if not any(problem.startswith("torch is not installed") for problem in found["problems"]):
                raise Failed(f"naq doctor does not miss torch: {found['problems']}")
            run(mine, "-m", "compileall", "-q", place / "venv" / "lib", cwd=place)
            tried = "torch would bring CUDA here and was not installed: only compiled, naq --help, naq doctor"
            return f"all extras resolve to {len(wanted)} packages; {tried}"
        run(*pip, "torch", cwd=place)
        run(*pip, wheel, cwd=place)
        return f"all extras resolve to {len(wanted)} packages; {use(place / 'venv' / 'bin', place)}"


def use(bin_folder: Path, place: Path) -> str:
    """Run the commands of a first day in an empty folder; their names."""
    naq, tried = bin_folder / "naq", ["doctor"]
    found = json.loads(run(naq, "doctor", "--json", cwd=place))
    if not found["naq"]["folder"].startswith(str(bin_folder.parent)):
        raise Failed(f"naq is imported from {found['naq']['folder']}")
    for name, text in (("edges.csv", EDGES), ("nodes.csv", NODES), ("few.csv", LABELS)):
        (place / name).write_text(text, encoding="utf-8")
    run(naq, "import", "edges.csv", "--nodes", "nodes.csv", "--out", "graph.npz", cwd=place)
    files = ("--labels", "few.csv", "--out", "predictions.csv", "--report", "page.html")
    run(naq, "predict", "graph.npz", *files, cwd=place)
    with (place / "predictions.csv").open(newline="", encoding="utf-8") as file:
        classes = {row["node"]: row["class"] for row in csv.DictReader(file)}
    if classes != {f"{group}{i}": name for group, name in (("x", "first"), ("y", "second")) for i in range(12)}:
        raise Failed(f"naq predict did not find the two halves of the graph: {classes}")
    run(naq, "run", "debian", "--method", "smooth", "--out", "runs", cwd=place)
    tried += ["import", "predict", "run"]
    if "studio" in run(naq, "--help", cwd=place):
        run(*pip_install(bin_folder / "python"), *found["extras"]["studio"]["missing"], cwd=place)
        run(naq, "studio", "graph.npz", "--check", cwd=place)
        tried.append("studio --check")
    return "naq " + ", ".join(tried)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dist", type=Path, default=ROOT / "dist", help="where wheel and sdist lie")
    parser.add_argument("--python", action="append", help="an interpreter; those that are found if left out")
    parser.add_argument("--cuda", action="store_true", help="install torch even where it brings CUDA")
    given = parser.parse_args()
    (wheel,), (sdist,) = given.dist.glob("*.whl"), given.dist.glob("*.tar.gz")
    try:
        check_contents(wheel, sdist)
        for name, python in ({path: path for path in given.python} if given.python else find_pythons()).items():
            started = time.monotonic()
            print(
                f"Python {name}: {check_python(python, wheel, given.cuda)} ({time.monotonic() - started:.0f} s)",
                flush=True,
            )
        for version in () if given.python else sorted(set(VERSIONS) - set(find_pythons())):
            print(f"Python {version}: not found, not tried")
    except Failed as error:
        print(f"release check failed: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
