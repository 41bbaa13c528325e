"""Files that are either whole or absent, checked when they are read; no format that can run code.

Every file of this package is written by :func:`write_atomically` and carries a checksum of its content, which is
verified when it is read.
"""

from naq.files.arrays import Members, checksum_of, is_text, open_zip, read_npz, read_tensors, write_npz, write_tensors
from naq.files.disk import (
    NO_SPACE,
    cache_folder,
    checksum_of_arrays,
    escape_cell,
    file_of,
    open_file,
    open_in_place,
    own_folder,
    parse_json,
    read_bytes,
    read_json,
    read_sealed,
    recover,
    replace_folder,
    sealed,
    set_aside,
    temporary_path,
    unescape_cell,
    verify_seal,
    write_atomically,
    write_json,
    write_sealed,
)

__all__ = [
    "NO_SPACE", "Members", "cache_folder", "checksum_of", "checksum_of_arrays", "escape_cell", "file_of", "is_text",
    "open_file", "open_in_place", "open_zip", "own_folder", "parse_json", "read_bytes", "read_json", "read_npz",
    "read_sealed", "read_tensors", "recover", "replace_folder", "sealed", "set_aside", "temporary_path",
    "unescape_cell", "verify_seal", "write_atomically", "write_json", "write_npz", "write_sealed", "write_tensors",
]  # fmt: skip
