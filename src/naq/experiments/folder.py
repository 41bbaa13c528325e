"""A folder of results: the requests it was made for, and the whole of it as one file."""

from __future__ import annotations

import tempfile
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from naq.errors import DataError, NaqError
from naq.experiments.request import Request
from naq.files import read_json, write_atomically, write_json
from naq.grid.store import Store

FORMAT = 3
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
        if not file.exists():
            return cls()
        data = read_json(file)
        try:
            if data["format"] != FORMAT:
                raise DataError(
                    f"{file} has format {data['format']!r}; expected {FORMAT}: it was made by another version."
                )
            try:
                requests = [Request.from_json(request) for request in data["requests"]]
            except NaqError as error:
                raise DataError(f"{file}: {error}") from error
            for request, given in zip(requests, data["requests"]):
                if not request.datasets or not isinstance(given["datasets"], list):
                    raise DataError(
                        f"{file}: the request for {request.experiment!r} has datasets {given['datasets']!r}; expected a list of at "
                        "least one: correct it, or delete the file and run naq reproduce again."
                    )
            return cls(requests, dict(data["paths"]))
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, NaqError):
                raise
            raise DataError(
                f"{file} is no list of requests ({error!r}); delete it and run naq reproduce again."
            ) from error

    def add(self, requests: Iterable[Request], paths: Mapping[str, str]) -> None:
        """Take in requests; one that was there already, perhaps on older data, is replaced."""
        for request in requests:
            same = [i for i, old in enumerate(self.requests) if replace(old, facts={}) == replace(request, facts={})]
            for i in reversed(same[1:]):
                del self.requests[i]
            if same:
                self.requests[same[0]] = request
            else:
                self.requests.append(request)
        self.paths |= dict(paths)

    def save(self, folder: str | Path) -> None:
        requests = [request.to_json() for request in self.requests]
        write_json(Path(folder) / REQUESTS, {"format": FORMAT, "requests": requests, "paths": self.paths})


def pack_folder(folder: str | Path, path: str | Path) -> int:
    """Write the finished results of a folder and its requests into one file, and return how many; equal results give equal bytes."""
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
    with tempfile.TemporaryDirectory() as place:
        try:
            with zipfile.ZipFile(path) as archive:
                for name in (REQUESTS, RECORDS):
                    (Path(place) / name).write_bytes(archive.read(name))
        except (OSError, EOFError, KeyError, ValueError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
            raise DataError(
                f"{path} is no file of packed results ({error}); make it with naq report --pack."
            ) from error
        try:
            packed, kept = Requests.load(place), Requests.load(folder)
            store = Store(folder)
            store.prepare()
            new = store.unpack(Path(place) / RECORDS)
        except DataError as error:
            # the temporary folder means nothing to a reader: what is wrong there is wrong in the file that was given
            raise DataError(str(error).replace(str(place), str(path))) from error
    kept.add(packed.requests, {})
    kept.save(folder)
    return new
