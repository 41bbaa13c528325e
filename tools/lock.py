"""Writes constraints.txt anew: ``make lock``. Every package that development needs, at the newest version that fits.

An empty environment is filled with torch, as constraints.txt pins it, and then with ``.[dev]``. Each version is
written with the hashes of all its wheels for Linux, macOS and Windows and the Pythons below (of the sdist if there
is no wheel), from the index that pip is configured with. torch has no hash: its build differs by machine.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from pip._internal.commands import create_command  # the only way to read the index as pip is configured
from pip._vendor.packaging.utils import canonicalize_name, parse_sdist_filename, parse_wheel_filename

ROOT = Path(__file__).resolve().parents[1]
LOCK = ROOT / "constraints.txt"
PYTHONS = range(11, 14)  # 3.11 to 3.13
ELSEWHERE = ("colorama",)  # needed on Windows only
HEADER = """\
# Written by tools/lock.py (make lock). `make install` installs these versions and no file with another hash.
# torch has no hash, as its build differs by machine: an open range would pull several gigabytes of CUDA.
"""


def resolved(pin: str) -> dict[str, str]:
    """Name to version of what ``.[dev]`` needs in addition to torch."""
    with tempfile.TemporaryDirectory(prefix="naq-lock-") as folder:
        python = str(Path(folder) / "bin" / "python")
        pip = [python, "-m", "pip", "--disable-pip-version-check"]
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([*pip, "install", "--quiet", pin], check=True)
        subprocess.run([*pip, "install", "--quiet", pin, "-e", f"{ROOT}[dev]", *ELSEWHERE], check=True)
        listed = json.loads(subprocess.check_output([*pip, "list", "--format=json"]))
    return {one["name"]: one["version"] for one in listed if one["name"] not in ("pip", "naq", "torch")}


def fits(wheel: str) -> bool:
    """Whether a wheel is for one of our Pythons and systems."""
    for tag in parse_wheel_filename(wheel)[3]:
        kind, version = re.match(r"([a-z]+)\d?(\d*)", tag.interpreter).groups()  # type: ignore[union-attr]
        stable = tag.abi in ("abi3", "none") and int(version or 0) <= max(PYTHONS)
        own = int(version or 0) in PYTHONS and tag.abi == tag.interpreter
        if (
            kind in ("cp", "py")
            and (stable or own)
            and not re.search("musllinux|win32|i686|armv7l|ppc|s390|riscv", tag.platform)
        ):
            return True
    return False


def hashes(versions: dict[str, str]) -> dict[str, list[str]]:
    """SHA-256 of every wheel that fits, or of the sdist."""
    command, found = create_command("download"), {}
    options, _ = command.parse_args(["-"])
    with command.main_context():
        session = command._build_session(options)
        for name, version in versions.items():
            page = session.get(
                f"{options.index_url.rstrip('/')}/{canonicalize_name(name)}/", headers={"Accept": "text/html"}
            )
            page.raise_for_status()
            files = dict(re.findall(r'href="[^"#]*?([^/"#]+)#sha256=([0-9a-f]{64})"', page.text))
            of_version = {file: code for file, code in files.items() if is_of(file, version)}
            wheels = [code for file, code in of_version.items() if file.endswith(".whl") and fits(file)]
            found[name] = sorted(wheels or of_version.values())
            if not found[name]:
                raise SystemExit(f"the index has no file of {name} {version}.")
    return found


def is_of(file: str, version: str) -> bool:
    try:
        return str((parse_wheel_filename if file.endswith(".whl") else parse_sdist_filename)(file)[1]) == version
    except Exception:  # a name of before there were rules
        return False


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    pin = next(line for line in LOCK.read_text(encoding="utf-8").splitlines() if line.startswith("torch=="))
    versions = resolved(pin)
    known = hashes(versions)
    lines = [HEADER + pin]
    for name in sorted(versions, key=str.lower):
        lines.append(
            " \\\n    ".join([f"{name}=={versions[name]}", *(f"--hash=sha256:{code}" for code in known[name])])
        )
    LOCK.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
