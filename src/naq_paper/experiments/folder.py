"""A folder of results: the requests it was made for, and the whole of it as one file."""

from __future__ import annotations

import tempfile
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from naq.errors import DataError, NaqError
from naq.files import open_zip, parse_json, read_sealed, verify_seal, write_atomically, write_sealed
from naq_paper.cells.records import records_of
from naq_paper.cells.store import Store
from naq_paper.experiments.request import Request

FORMAT = 4
"""4 has a checksum; requests of format 3, which have none, are read too."""
REQUESTS, RECORDS = "requests.json", "records.json.xz"


@dataclass
class Requests:
    """What a folder of results was made for: requests, and where their datasets lie."""

    requests: list[Request] = field(default_factory=list)
    paths: dict[str, str] = field(default_factory=dict)

    @classmethod
    def load(cls, folder: str | Path) -> Requests:
        """The requests of a folder; none where there is no file of them."""
        file = Path(folder) / REQUESTS
        return cls._of(read_sealed(file, FORMAT), file) if file.exists() else cls()

    @classmethod
    def _of(cls, data: Mapping[str, Any], file: str | Path) -> Requests:
        try:
            if data["format"] not in (3, FORMAT):
                words = f"expected {FORMAT}: it was made by another version"
                raise DataError(f"{file} has format {data['format']!r}; {words}.")
            try:
                requests = [Request.from_json(request) for request in data["requests"]]
            except NaqError as error:
                raise DataError(f"{file}: {error}") from error
            for request, given in zip(requests, data["requests"]):
                if not request.datasets or not isinstance(given["datasets"], list):
                    raise DataError(
                        f"{file}: the request for {request.experiment!r} has datasets {given['datasets']!r}; expected a list of "
                        "at least one: correct it, or delete the file and run naq reproduce again."
                    )
            paths = data["paths"]
            if not isinstance(paths, dict) or not all(isinstance(path, str) for path in paths.values()):
                raise TypeError("paths are no texts by name")
            return cls(requests, dict(paths))
        except NaqError:
            raise
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            words = f"is no list of requests ({error!r}); delete it and run naq reproduce again"
            raise DataError(f"{file} {words}.") from error

    def add(self, requests: Iterable[Request], paths: Mapping[str, str]) -> None:
        """Take in requests; one that was there already, perhaps on older data, is replaced."""
        for request in requests:
            same = [i for i, old in enumerate(self.requests) if replace(old, facts={}) == replace(request, facts={})]
            place = same[0] if same else len(self.requests)
            others = [old for i, old in enumerate(self.requests) if i not in same]
            self.requests = [*others[:place], request, *others[place:]]
        self.paths |= dict(paths)

    def save(self, folder: str | Path) -> None:
        requests = [request.to_json() for request in self.requests]
        write_sealed(Path(folder) / REQUESTS, {"format": FORMAT, "requests": requests, "paths": self.paths})


def pack_folder(folder: str | Path, path: str | Path) -> int:
    """Write the finished results of a folder and its requests into one file; how many. Equal results give equal bytes."""
    requests = Requests.load(folder)
    with tempfile.TemporaryDirectory() as place:
        count = Store(folder).pack(Path(place) / RECORDS)
        Requests(requests.requests, {}).save(place)  # paths of this machine mean nothing elsewhere
        members = {name: (Path(place) / name).read_bytes() for name in (REQUESTS, RECORDS)}

    def write(temporary: Path) -> None:
        with zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in members.items():
                archive.writestr(zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0)), content)

    write_atomically(path, write)
    return count


def unpack_folder(path: str | Path, folder: str | Path) -> int:
    """Put the results of a packed file into a folder, beside what is there, and return how many were new."""
    with open_zip(path, "file of packed results; make it with naq report --pack") as members:
        if not {REQUESTS, RECORDS} <= set(members):
            raise DataError(f"{path} is no file of packed results: it has no {REQUESTS} or no {RECORDS}.")
        try:
            value = parse_json(members[REQUESTS])
            old = isinstance(value, dict) and value.get("format") == 3
            packed = Requests._of(verify_seal(value, unsealed=old), path)
        except ValueError as error:
            raise DataError(f"{path}: {REQUESTS} is damaged ({error}); make it with naq report --pack.") from error
        records = records_of(members[RECORDS], path)
    kept = Requests.load(folder)
    store = Store(folder)
    store.prepare()
    new = store.add(records)
    kept.add(packed.requests, {})
    kept.save(folder)
    return new
