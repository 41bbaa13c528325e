"""``naq doctor``: what is installed here, what is missing, and what to do about it.

Nothing here may fail because something else is broken: what cannot be found out is reported with the reason.
"""

from __future__ import annotations

import json
import os
import platform
import re
import sys
from collections.abc import Callable, Mapping
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any

from typer import Exit, Option, echo

from naq import __version__
from naq.device import room
from naq.options import imported
from naq.threads import SETTINGS, arithmetic, available_cores

VARIABLES = ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS", *SETTINGS)
FOLDERS = {"cache": ("naq.files:cache_folder", "NAQ_CACHE"), "datasets": ("naq.io.download:dataset_root", "NAQ_DATA")}
"""What finds the folders that naq writes to, and the variables that choose others."""


def doctor_command(
    as_json: Annotated[bool, Option("--json", help="For programs.")] = False,
    check: Annotated[bool, Option("--check", help="Also compute every fast path by its slow form: a minute.")] = False,
) -> None:
    """Show versions, devices, folders and what is missing for each extra; exit code 1 if naq cannot work here."""
    found = diagnosis(check)
    echo(json.dumps(found, indent=2) if as_json else "\n".join(report_lines(found)))
    raise Exit(1 if found["problems"] else 0)


def diagnosis(check: bool = False) -> dict[str, Any]:
    """Everything the command shows. A part that could not be found out is ``{"error": why}``."""
    parts: dict[str, Callable[[], Any]] = {
        "packages": lambda: packages_of(""), "devices": devices, "threads": threads, "extras": extra_packages,
        "checks": lambda: imported("naq.checks:check_all")() if check else {},
    }  # fmt: skip
    found: dict[str, Any] = {
        "naq": {"version": __version__, "folder": str(Path(__file__).parents[1])},
        "python": {"version": platform.python_version(), "executable": sys.executable, "platform": platform.platform()},
        **{name: _attempt(find_out) for name, find_out in parts.items()},
        "folders": {name: _attempt(partial(folder_size, finder)) for name, (finder, _) in FOLDERS.items()},
    }
    return {**found, "problems": _problems(found)}


def _attempt(find_out: Callable[[], Any]) -> Any:
    try:
        return find_out()
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}".splitlines()[0]}


def packages_of(extra: str) -> dict[str, Any]:
    """By name of what naq or an extra needs: the installed version (None: missing), the least, whether it is enough."""
    from packaging.requirements import Requirement

    found: dict[str, Any] = {}
    for one in map(Requirement, metadata.requires("naq") or []):
        always, here = (one.marker is None or one.marker.evaluate({"extra": name}) for name in ("", extra))
        if not here or (extra and always):
            continue
        if one.name == "naq":  # an extra of other extras
            for other in sorted(one.extras):
                found |= packages_of(other)
            continue
        try:
            version: str | None = metadata.version(one.name)
        except metadata.PackageNotFoundError:
            version = None
        enough = version is not None and one.specifier.contains(version, prereleases=True)
        found[one.name] = {"installed": version, "least": str(one.specifier).removeprefix(">="), "enough": enough}
    return found


def extra_packages() -> dict[str, Any]:
    """For each extra its packages, those missing or too old, and the line that installs them."""
    found = {}
    for extra in dict.fromkeys(re.findall(r"extra == ['\"]([\w-]+)", "\n".join(metadata.requires("naq") or []))):
        packages = packages_of(extra)
        missing = sorted(name for name, package in packages.items() if not package["enough"])
        found[extra] = {"packages": packages, "missing": missing, "install": f'pip install "naq[{extra}]"'}
    return found


def devices() -> dict[str, Any]:
    """The processor and the accelerators that torch can use; ``torch_cuda`` is what torch was built for."""
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


def folder_size(finder: str) -> dict[str, Any]:
    """Files and bytes in the folder that ``module:function`` finds, and whether naq may write there or make it."""
    folder: Path | None = imported(finder)()
    if folder is None:
        raise RuntimeError("this user has no home folder")
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
    unknown = [part for part in ("packages", "devices", "threads") if "error" in found[part]]
    problems = [f"{part} are not known ({found[part]['error']})." for part in unknown]
    for name, package in found["packages"].items() if "error" not in found["packages"] else ():
        if not package["enough"]:
            have = "is not installed" if package["installed"] is None else f"is {package['installed']}"
            line = f'pip install "{name}>={package["least"]}"'
            problems.append(f"{name} {have}, at least {package['least']} is needed: {line}.")
    for name, folder in found["folders"].items():
        if "error" in folder or not folder["writable"]:
            why = (
                f"not known ({folder['error']})"
                if "error" in folder
                else f"{folder['folder']}, which cannot be written"
            )
            problems.append(f"the folder of the {name} is {why}; set {FOLDERS[name][1]} to another.")
    if wrong := "; ".join(f"{name}: {words}" for name, words in found["checks"].items() if words != "ok"):
        problems.append(f"numbers of this machine may be wrong, please report what the checks found ({wrong}).")
    return problems


def report_lines(found: Mapping[str, Any]) -> list[str]:
    """Every part in lines of text, then the problems."""
    lines = []
    for title, part in found.items():
        lines += ["", title] if isinstance(part, Mapping) else []
        for name, value in part.items() if isinstance(part, Mapping) else ():
            if isinstance(value, Mapping):
                words = {word: one for word, one in value.items() if word != "packages"}
                value = ", ".join(f"{word} {_text(word, one)}" for word, one in words.items())
            lines.append(f"  {name:<18} {_text(name, value)}")
    return [*lines[1:], "", *([f"problem: {text}" for text in found["problems"]] or ["no problems found"])]


def _text(name: str, value: Any) -> str:
    if name in ("bytes", "memory", "free_memory"):
        return f"{value / 2**30:.1f} GiB"
    return str("none" if value in (None, [], "") else value)
