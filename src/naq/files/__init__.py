"""Files that are either whole or absent, checked when they are read; no format that can run code.

Every file this package writes is written by :func:`write_atomically` and carries a checksum of its content (:mod:`naq.files.checksums`),
which is verified when it is read.
"""

from naq.files.cells import FORMULA, as_written, guarded
from naq.files.folders import cache_folder
from naq.files.json_files import parse_json, read_json, read_sealed, sealed, verify_seal, write_json, write_sealed
from naq.files.npz import is_text, read_npz, write_npz
from naq.files.reading import file_of, open_file, read_bytes, set_aside
from naq.files.tensors import checksum_of, read_tensors, write_tensors
from naq.files.writing import NO_SPACE, write_atomically
from naq.files.zips import Members, open_zip

__all__ = [
    "FORMULA",
    "NO_SPACE",
    "Members",
    "as_written",
    "cache_folder",
    "checksum_of",
    "file_of",
    "guarded",
    "is_text",
    "open_file",
    "open_zip",
    "parse_json",
    "read_bytes",
    "read_json",
    "read_npz",
    "read_sealed",
    "read_tensors",
    "sealed",
    "set_aside",
    "verify_seal",
    "write_atomically",
    "write_json",
    "write_npz",
    "write_sealed",
    "write_tensors",
]
