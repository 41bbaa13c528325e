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

import typer

from naq import __version__
from naq.memory import SHARE, free_bytes
from naq.threads import SETTINGS, arithmetic, available_cores

REQUIREMENT = re.compile(r"^([\w.-]+)(?:\[([\w,\s-]+)\])?(?:>=([\w.]+))?(?:\s*;.*extra == ['\"]([\w-]+)['\"])?")
VARIABLES = ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS", *SETTINGS)


def doctor_command(as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False) -> None:
    """Show versions, devices, threads, folders, and what is missing for each extra; exit code 1 if naq cannot work here."""
    found = diagnosis()
    typer.echo(json.dumps(found, indent=2) if as_json else "\n".join(_lines(found)))
    raise typer.Exit(1 if found["problems"] else 0)


def diagnosis() -> dict[str, Any]:
    """Everything the command shows. Where a part could not be found out it is ``{"error": why}``."""
    packages = _attempt(required_packages)
    extras = _attempt(extra_packages)
    found = {
        "naq": {"version": __version__, "folder": str(Path(__file__).parents[1])},
        "python": {
            "version": platform.python_version(),
            "executable": sys.executable,
            "platform": platform.platform(),
        },
        "packages": packages,
        "devices": _attempt(devices),
        "threads": _attempt(threads),
        "folders": {"cache": _attempt(_cache), "datasets": _attempt(_datasets)},
        "extras": extras,
    }
    return {**found, "problems": _problems(found)}


def _attempt(find_out: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    try:
        return find_out()
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}".splitlines()[0]}


def required_packages() -> dict[str, Any]:
    """Name to installed version (None: missing), least version and whether it is enough, of what naq cannot work without."""
    return {name: _package(name, least) for name, _, least, extra in _requirements() if not extra}


def extra_packages() -> dict[str, Any]:
    """For each extra its packages, those missing or too old, and the line that installs them."""
    rows = _requirements()
    return {extra: _extra(extra, rows) for extra in dict.fromkeys(row[3] for row in rows if row[3])}


def _extra(extra: str, rows: list[tuple[str, str, str, str]]) -> dict[str, Any]:
    packages: dict[str, Any] = {}
    for name, inner, least, owner in rows:
        if owner != extra:
            continue
        if name == "naq":  # an extra of other extras
            for one in inner.split(","):
                packages.update(_extra(one.strip(), rows)["packages"])
        else:
            packages[name] = _package(name, least)
    missing = sorted(name for name, package in packages.items() if not package["enough"])
    return {"packages": packages, "missing": missing, "install": f'pip install "naq[{extra}]"'}


def _requirements() -> list[tuple[str, str, str, str]]:
    """(name, extras of it, least version, extra of naq that it belongs to) of each requirement; empty strings for none."""
    matches = (REQUIREMENT.match(text) for text in metadata.requires("naq") or [])
    return [tuple(part or "" for part in match.groups()) for match in matches if match]  # type: ignore[misc]


def _package(name: str, least: str) -> dict[str, Any]:
    try:
        installed = metadata.version(name)
    except metadata.PackageNotFoundError:
        return {"installed": None, "least": least, "enough": False}
    return {"installed": installed, "least": least, "enough": _numbers(installed) >= _numbers(least)}


def _numbers(version: str) -> list[int]:
    """The numbers a version begins with, without zeros at the end: 2.4.0rc1 is [2, 4]."""
    leading = re.match(r"\d+(\.\d+)*", version)
    numbers = [int(part) for part in leading[0].split(".")] if leading else []
    while numbers and not numbers[-1]:
        numbers.pop()
    return numbers


def devices() -> dict[str, Any]:
    """The processor and the accelerators that torch can use; ``torch_cuda`` is the version of CUDA torch was built for."""
    import torch

    mine = {"cores": available_cores(), "free_memory": int(free_bytes(torch.device("cpu")) / SHARE)}
    cuda = [torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())]
    return {
        "cpu": {**mine, "capability": torch.backends.cpu.get_cpu_capability()},
        "cuda": [{"name": card.name, "memory": card.total_memory} for card in cuda],
        "torch_cuda": torch.version.cuda,
    }


def threads() -> dict[str, Any]:
    """Threads of torch and numba, and the variables that decide them and the order of additions."""
    count = arithmetic()
    return {
        "torch": count["torch_threads"],
        "numba": count["numba_threads"],
        "variables": {name: os.environ.get(name) for name in VARIABLES},
    }


def _cache() -> dict[str, Any]:
    from naq.files import cache_folder

    folder = cache_folder()
    if folder is None:
        raise RuntimeError("this user has no home folder")
    return folder_size(folder)


def _datasets() -> dict[str, Any]:
    from naq.io.download import dataset_root

    return folder_size(dataset_root())


def folder_size(folder: Path) -> dict[str, Any]:
    """How many files a folder holds, in how many bytes, and whether naq may write there (for one that is not there yet, make it)."""
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
                problems.append(f'{name} {have}, at least {package["least"]} is needed: pip install "{name}>={package["least"]}".')  # fmt: skip
    for part in ("devices", "threads"):
        if "error" in found[part]:
            problems.append(f"{part} are not known ({found[part]['error']}).")
    for name, folder in found["folders"].items():
        variable = {"cache": "NAQ_CACHE", "datasets": "NAQ_DATA"}[name]
        if "error" in folder:
            problems.append(f"the folder of the {name} is not known ({folder['error']}); set {variable}.")
        elif not folder["writable"]:
            problems.append(f"{folder['folder']} cannot be written; set {variable} to another folder.")
    return problems


def _lines(found: Mapping[str, Any]) -> list[str]:
    lines = [f"naq {found['naq']['version']} in {found['naq']['folder']}"]
    lines.append("Python {version} at {executable}, {platform}".format(**found["python"]))
    for title, part, shown in (
        ("packages", found["packages"], _package_lines),
        ("devices", found["devices"], _device_lines),
        ("threads", found["threads"], _thread_lines),
        ("extras", found["extras"], _extra_lines),
    ):
        lines += ["", title, *([f"  not known: {part['error']}"] if "error" in part else shown(part))]
    lines += ["", "folders"]
    for name, folder in found["folders"].items():
        size = f"not known: {folder['error']}" if "error" in folder else "{folder}, {files:,} files, ".format(**folder) + _size(folder["bytes"])  # fmt: skip
        lines.append(f"  {name:<18} {size}")
    return [*lines, "", *([f"problem: {text}" for text in found["problems"]] or ["no problems found"])]


def _package_lines(packages: Mapping[str, Any]) -> list[str]:
    return [f"  {name:<18} {package['installed'] or 'missing'}" for name, package in packages.items()]


def _device_lines(found: Mapping[str, Any]) -> list[str]:
    cpu = found["cpu"]
    lines = [f"  {'cpu':<18} {cpu['cores']} cores, {_size(cpu['free_memory'])} free, {cpu['capability']}"]
    lines += [f"  {f'cuda:{i}':<18} {card['name']}, {_size(card['memory'])}" for i, card in enumerate(found["cuda"])]
    if not found["cuda"]:
        build = f"torch is built for CUDA {found['torch_cuda']}" if found["torch_cuda"] else "this build of torch knows the CPU only"  # fmt: skip
        lines.append(f"  {'cuda':<18} no device ({build})")
    return lines


def _thread_lines(found: Mapping[str, Any]) -> list[str]:
    variables = [f"  {name:<18} {value or 'not set'}" for name, value in found["variables"].items()]
    return [f"  {'torch':<18} {found['torch']}", f"  {'numba':<18} {found['numba']}", *variables]


def _extra_lines(extras: Mapping[str, Any]) -> list[str]:
    return [
        f"  {name:<18} {'missing ' + ', '.join(extra['missing']) + ': ' + extra['install'] if extra['missing'] else 'complete'}"
        for name, extra in extras.items()
    ]


def _size(count: float) -> str:
    for unit in ("bytes", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"
