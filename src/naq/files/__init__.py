"""Files that are either whole or absent, checked when they are read; no format that can run code.

Every file this package writes is written by :func:`write_atomically` and carries a checksum of its content (:mod:`naq.files.disk`),
which is verified when it is read.
"""

from naq.files.archives import Members, is_text, open_zip, read_npz, write_npz
from naq.files.disk import (
    NO_SPACE,
    as_written,
    cache_folder,
    file_of,
    guarded,
    open_file,
    open_in_place,
    own_folder,
    parse_json,
    read_bytes,
    read_json,
    read_sealed,
    sealed,
    set_aside,
    verify_seal,
    write_atomically,
    write_json,
    write_sealed,
)
from naq.files.tensors import checksum_of, read_tensors, write_tensors

__all__ = [
    "NO_SPACE", "Members", "as_written", "cache_folder", "checksum_of", "file_of", "guarded", "is_text",
    "open_file", "open_in_place", "open_zip", "own_folder", "parse_json", "read_bytes", "read_json", "read_npz", "read_sealed", "read_tensors", 
    "sealed", "set_aside", "verify_seal", "write_atomically", "write_json", "write_npz", "write_sealed",
    "write_tensors",
]  # fmt: skip
