"""Members of zip files, each read whole and held to its CRC, all of them together within memory."""

from __future__ import annotations

import os
import zipfile
import zlib
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from naq import memory
from naq.errors import DataError
from naq.files.reading import file_of

PIECE = 1 << 20


def _check_end(path: Path) -> None:
    """A comment that was cut off is noticed by nobody else."""
    with path.open("rb") as stream:
        size = stream.seek(0, os.SEEK_END)
        stream.seek(max(0, size - (1 << 16) - 22))
        tail = stream.read()
    place = tail.rfind(b"PK\5\6")
    if place >= 0 and len(tail) != place + 22 + int.from_bytes(tail[place + 20 : place + 22], "little"):
        raise DataError(f"{path} is cut off at its end, or something follows it; make or download it again.")


class Members(Mapping[str, bytes]):
    """The members of an open zip by name; reading one checks it.

    Attributes:
        comment: of the archive.
    """

    def __init__(self, archive: zipfile.ZipFile, path: Path) -> None:
        self.path, self.comment = path, archive.comment
        self._archive = archive
        self._entries: dict[str, zipfile.ZipInfo] = {}
        for entry in archive.infolist():
            if entry.filename in self._entries:
                raise DataError(f"{path} holds {entry.filename!r} twice; the file is damaged.")
            self._entries[entry.filename] = entry

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def size(self, name: str) -> int:
        """Bytes that the member claims to have."""
        return self._entries[name].file_size

    def __getitem__(self, name: str) -> bytes:
        """The whole content."""
        pieces = list(self.pieces(name))
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def pieces(self, name: str) -> Generator[bytes, None, None]:
        """The content in pieces of a MiB, for what does not have to be held twice; after the last, size and CRC are checked.

        zipfile leaves out the CRC of a member that it is not asked to read to the end.
        """
        entry = self._entries[name]
        size, crc = 0, 0
        with self._archive.open(entry) as stream:
            while piece := stream.read(PIECE):
                size += len(piece)
                crc = zlib.crc32(piece, crc)
                yield piece
        if size != entry.file_size or crc != entry.CRC:
            raise DataError(f"{self.path}: member {name!r} does not have the size and the CRC that it claims to have.")


@contextmanager
def open_zip(path: str | Path, kind: str, *, copies: float = 2.0) -> Iterator[Members]:
    """The members of a zip file; whatever is wrong with it, then or while members are read, is a ``DataError``.

    Args:
        copies: memory that reading takes, as a multiple of what the largest member claims to have.
    """
    path = file_of(path, kind)
    try:
        with zipfile.ZipFile(path) as archive:
            _check_end(path)
            members = Members(archive, path)
            largest = max((members.size(name) for name in members), default=0)
            memory.require(copies * largest, f"a member of {path}", "use a larger machine", DataError)
            yield members
    except DataError:
        raise
    except (zipfile.BadZipFile, EOFError, OSError, ValueError, NotImplementedError, RuntimeError) as error:
        raise DataError(
            f"{path} is not a readable {kind} ({error}); it may be truncated: make or download it again."
        ) from error
    except MemoryError as error:
        raise DataError(f"{path} needs more memory than there is; use a larger machine.") from error
    except Exception as error:  # zlib and lzma have error classes of their own
        raise DataError(f"{path} is damaged ({error}); make or download it again.") from error
