"""``naq doctor``: what is installed here, what is missing, and what to do about it.

Nothing here may fail because something else is broken: whatever cannot be found out is reported with the reason.
"""

from __future__ import annotations

import json
import os
import platform
import re
import sys
from collections.abc import Callable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any

from typer import Exit, Option, echo

from naq import __version__
from naq.device import room
from naq.plugins import imported
from naq.threads import SETTINGS, arithmetic, available_cores

VARIABLES = ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS", *SETTINGS)


def doctor_command(
    as_json: Annotated[bool, Option("--json", help="For programs.")] = False,
    check: Annotated[bool, Option("--check", help="Also compute every fast path by its slow form: a minute.")] = False,
) -> None:
    """Show versions, devices, threads, folders, and what is missing for each extra; exit code 1 if naq cannot work here."""
    found = diagnosis(check)
    echo(json.dumps(found, indent=2) if as_json else "\n".join(_lines(found)))
    raise Exit(1 if found["problems"] else 0)


def diagnosis(check: bool = False) -> dict[str, Any]:
    """Everything the command shows. A part that could not be found out is ``{"error": why}``."""
    found = {
        "naq": {"version": __version__, "folder": str(Path(__file__).parents[1])},
        "python": {"version": platform.python_version(), "executable": sys.executable, "platform": platform.platform()},
        "packages": _attempt(lambda: _packages("")),
        "devices": _attempt(devices),
        "threads": _attempt(threads),
        "folders": {
            "cache": _attempt(_cache),
            "datasets": _attempt(lambda: folder_size(imported("naq.io.download:dataset_root")())),
        },
        "extras": _attempt(extra_packages),
        "checks": _attempt(lambda: imported("naq.checks:check_all")()) if check else {},
    }
    return {**found, "problems": _problems(found)}


def _attempt(find_out: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    try:
        return find_out()
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}".splitlines()[0]}


def extra_packages() -> dict[str, Any]:
    """For each extra its packages, those missing or too old, and the line that installs them."""
    found = {}
    named = re.findall(r"extra == ['\"]([\w-]+)", "\n".join(metadata.requires("naq") or []))
    for extra in dict.fromkeys(named):
        packages = _packages(extra)
        missing = sorted(name for name, package in packages.items() if not package["enough"])
        found[extra] = {"packages": packages, "missing": missing, "install": f'pip install "naq[{extra}]"'}
    return found


def _packages(extra: str) -> dict[str, Any]:
    """Name to installed version (None: missing), least version and whether it is enough, of what naq or one of its extras needs."""
    from packaging.requirements import Requirement

    found: dict[str, Any] = {}
    for one in map(Requirement, metadata.requires("naq") or []):
        if one.marker is not None and (not one.marker.evaluate({"extra": extra}) or one.marker.evaluate({"extra": ""})):
            continue
        if one.marker is None and extra:
            continue
        if one.name == "naq":  # an extra of other extras
            for other in sorted(one.extras):
                found |= _packages(other)
            continue
        try:
            installed: str | None = metadata.version(one.name)
        except metadata.PackageNotFoundError:
            installed = None
        enough = installed is not None and one.specifier.contains(installed, prereleases=True)
        found[one.name] = {"installed": installed, "least": str(one.specifier).removeprefix(">="), "enough": enough}
    return found


def devices() -> dict[str, Any]:
    """The processor and the accelerators that torch can use; ``torch_cuda`` is the version of CUDA torch was built for."""
    import torch

    cards = [torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())]
    capability = torch.backends.cpu.get_cpu_capability()
    return {
        "cpu": {"cores": available_cores(), "free_memory": int(room()), "capability": capability},
        "cuda": [{"name": card.name, "memory": card.total_memory} for card in cards],
        "torch_cuda": torch.version.cuda,
    }


def threads() -> dict[str, Any]:
    """Threads of torch and numba, and the variables that decide them and the order of additions."""
    count = arithmetic()
    variables = {name: os.environ.get(name) for name in VARIABLES}
    return {"torch": count["torch_threads"], "numba": count["numba_threads"], "variables": variables}


def _cache() -> dict[str, Any]:
    from naq.files import cache_folder

    if (folder := cache_folder()) is None:
        raise RuntimeError("this user has no home folder")
    return folder_size(folder)


def folder_size(folder: Path) -> dict[str, Any]:
    """How many files a folder holds, in how many bytes, and whether naq may write there (or make it, if it does not exist)."""
    sizes = []
    for path in folder.rglob("*"):
        try:
            if path.is_file():
                sizes.append(path.stat().st_size)
        except OSError:  # gone meanwhile, or not ours to read
            continue
    above = next((place for place in (folder, *folder.parents) if place.exists()), folder)
    writable = above.is_dir() and os.access(above, os.W_OK | os.X_OK)
    return {"folder": str(folder), "files": len(sizes), "bytes": sum(sizes), "writable": writable}


def _problems(found: Mapping[str, Any]) -> list[str]:
    """One sentence for each thing that keeps naq from working here."""
    problems = []
    if "error" in found["packages"]:
        problems.append(f"what naq needs is not known ({found['packages']['error']}): install it with pip.")
    else:
        for name, package in found["packages"].items():
            if not package["enough"]:
                have = "is not installed" if package["installed"] is None else f"is {package['installed']}"
                least = package["least"]
                problems.append(f'{name} {have}, at least {least} is needed: pip install "{name}>={least}".')
    for part in ("devices", "threads"):
        if "error" in found[part]:
            problems.append(f"{part} are not known ({found[part]['error']}).")
    for name, folder in found["folders"].items():
        variable = {"cache": "NAQ_CACHE", "datasets": "NAQ_DATA"}[name]
        if "error" in folder:
            problems.append(f"the folder of the {name} is not known ({folder['error']}); set {variable}.")
        elif not folder["writable"]:
            problems.append(f"{folder['folder']} cannot be written; set {variable} to another folder.")
    if wrong := "; ".join(f"{name}: {words}" for name, words in found["checks"].items() if words != "ok"):
        problems.append(f"numbers of this machine may be wrong, please report what the checks found ({wrong}).")
    return problems


def _lines(found: Mapping[str, Any]) -> list[str]:
    lines = [
        f"naq {found['naq']['version']} in {found['naq']['folder']}",
        "Python {version} at {executable}, {platform}".format(**found["python"]),
    ]
    for title in ("packages", "devices", "threads", "extras"):
        part = found[title]
        rows = {"not known": part["error"]} if "error" in part else _rows(title, part)
        lines += ["", title, *(f"  {name:<18} {value}" for name, value in rows.items())]
    lines += ["", "folders"]
    for name, one in found["folders"].items():
        size = f"not known: {one['error']}" if "error" in one else f"{one['folder']}, {one['files']:,} files, {_size(one['bytes'])}"  # fmt: skip
        lines.append(f"  {name:<18} {size}")
    if found["checks"]:
        lines += ["", "checks", *(f"  {name:<30} {words}" for name, words in found["checks"].items())]
    return [*lines, "", *([f"problem: {text}" for text in found["problems"]] or ["no problems found"])]


def _rows(title: str, part: Mapping[str, Any]) -> dict[str, Any]:
    """What is shown of one part, by name."""
    if title == "packages":
        return {name: package["installed"] or "missing" for name, package in part.items()}
    if title == "extras":
        wanted = {name: f"missing {', '.join(one['missing'])}: {one['install']}" for name, one in part.items()}
        return {name: wanted[name] if one["missing"] else "complete" for name, one in part.items()}
    if title == "threads":
        variables = {name: value or "not set" for name, value in part["variables"].items()}
        return {"torch": part["torch"], "numba": part["numba"], **variables}
    cpu, build = part["cpu"], part["torch_cuda"]
    rows = {"cpu": f"{cpu['cores']} cores, {_size(cpu['free_memory'])} free, {cpu['capability']}"}
    rows |= {f"cuda:{i}": f"{card['name']}, {_size(card['memory'])}" for i, card in enumerate(part["cuda"])}
    if not part["cuda"]:
        rows["cuda"] = f"no device (torch is built for {f'CUDA {build}' if build else 'the CPU only'})"
    return rows


def _size(count: float) -> str:
    for unit in ("bytes", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"
