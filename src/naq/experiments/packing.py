"""A folder of results as one file: its records and what it was made for."""

from __future__ import annotations

import tempfile
import zipfile
import zlib
from pathlib import Path

from naq.errors import DataError
from naq.experiments.reproduction import Plan
from naq.files import write_atomically
from naq.grid.store import Store

PLAN, RECORDS = "plan.json", "records.json.xz"


def pack_folder(folder: str | Path, path: str | Path) -> int:
    """Write the finished results of a folder and its plan into one file, and return how many; equal results give equal bytes."""
    plan = Plan.load(folder)
    with tempfile.TemporaryDirectory() as place:
        count = Store(folder).pack(Path(place) / RECORDS)
        Plan(plan.requests, {}).save(place)  # where data lay on this machine is nobody else's business
        members = {name: (Path(place) / name).read_bytes() for name in (PLAN, RECORDS)}

    def write(temporary: Path) -> None:
        with zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in members.items():
                archive.writestr(zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0)), content)

    write_atomically(path, write)
    return count


def unpack_folder(path: str | Path, folder: str | Path) -> int:
    """Put the results of a packed file into a folder, beside what is there, and return how many were new."""
    with tempfile.TemporaryDirectory() as place:
        try:
            with zipfile.ZipFile(path) as archive:
                for name in (PLAN, RECORDS):
                    (Path(place) / name).write_bytes(archive.read(name))
        except (OSError, EOFError, KeyError, ValueError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
            raise DataError(
                f"{path} is no file of packed results ({error}); make it with naq report --pack."
            ) from error
        try:
            packed, plan = Plan.load(place), Plan.load(folder)
            store = Store(folder)
            store.prepare()
            new = store.unpack(Path(place) / RECORDS)
        except DataError as error:
            # nobody knows the temporary folder: what is wrong there is wrong in the file that was given
            raise DataError(str(error).replace(str(place), str(path))) from error
    plan.add(packed.requests, {})
    plan.save(folder)
    return new
