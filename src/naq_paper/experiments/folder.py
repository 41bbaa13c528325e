"""A folder of results: the requests it was made for, and the whole of it as one file."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from naq.errors import DataError, NaqError
from naq.files import open_zip, parse_json, read_sealed, sealed, verify_seal, write_atomically, write_sealed
from naq_paper.cells.records import Record, pack_records, unpack_records
from naq_paper.cells.store import Store
from naq_paper.experiments.request import Request

FORMAT = 4
"""4 has a checksum; requests of format 3, which have none, are read too."""
REQUESTS, RECORDS = "requests.json", "records.json.xz"


@dataclass
class Requests:
    """What a folder of results was made for: requests, and the paths of their datasets."""

    requests: list[Request] = field(default_factory=list)
    paths: dict[str, str] = field(default_factory=dict)

    @classmethod
    def load(cls, folder: str | Path) -> Requests:
        """The requests of a folder; none without a file of them."""
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
                        f"{file}: the request for {request.experiment!r} has datasets {given['datasets']!r}; "
                        "expected a list of "
                        "at least one: correct it, or delete the file and run naq reproduce again."
                    )
            paths = data["paths"]
            if not isinstance(paths, dict) or not all(isinstance(path, str) for path in paths.values()):
                raise TypeError("paths are not texts by name")
            return cls(requests, dict(paths))
        except NaqError:
            raise
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            words = f"is not a list of requests ({error!r}); delete it and run naq reproduce again"
            raise DataError(f"{file} {words}.") from error

    def add(self, requests: Iterable[Request], paths: Mapping[str, str]) -> None:
        """Take in requests; one that was there already, perhaps on older data, is replaced."""
        for request in requests:
            same = [i for i, old in enumerate(self.requests) if replace(old, facts={}) == replace(request, facts={})]
            place = same[0] if same else len(self.requests)
            others = [old for i, old in enumerate(self.requests) if i not in same]
            self.requests = [*others[:place], request, *others[place:]]
        self.paths |= dict(paths)

    def to_json(self) -> dict[str, Any]:
        requests = [request.to_json() for request in self.requests]
        return {"format": FORMAT, "requests": requests, "paths": self.paths}

    def save(self, folder: str | Path) -> None:
        write_sealed(Path(folder) / REQUESTS, self.to_json())


def pack_folder(folder: str | Path, path: str | Path) -> int:
    """Write the finished results of a folder and its requests into one file, the same bytes for equal results."""
    records = list(Store(folder).records())
    requests = Requests(Requests.load(folder).requests)  # paths of this machine mean nothing elsewhere
    text = json.dumps(sealed(requests.to_json()), indent=2) + "\n"
    members = {REQUESTS: text.encode(), RECORDS: pack_records(records)}

    def write(temporary: Path) -> None:
        with zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in members.items():
                archive.writestr(zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0)), content)

    write_atomically(path, write)
    return len(records)


def read_pack(path: str | Path) -> tuple[list[Request], list[Record]]:
    """The requests and the results in a packed file."""
    with open_zip(path, "file of packed results; make it with naq report --pack") as members:
        if not {REQUESTS, RECORDS} <= set(members):
            raise DataError(f"{path} is not a file of packed results: it lacks {REQUESTS} or {RECORDS}.")
        try:
            value = parse_json(members[REQUESTS])
            old = isinstance(value, dict) and value.get("format") == 3
            packed = Requests._of(verify_seal(value, unsealed=old), path)
        except ValueError as error:
            raise DataError(f"{path}: {REQUESTS} is damaged ({error}); make it with naq report --pack.") from error
        return packed.requests, unpack_records(members[RECORDS], path)
