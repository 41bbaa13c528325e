"""Where graphs come from: names, files, splits and tasks that go with them."""

from typing import Any

from naq.data.catalog import DATASETS, Dataset, listing
from naq.data.download import dataset_root
from naq.data.loading import load
from naq.data.mapped import save_mapped
from naq.data.npz import save_graph
from naq.data.splits import split_for, tasks_path
from naq.data.tables import Choice, Imported, ImportReport, from_networkx, from_tables, import_tables

__all__ = [
    "DATASETS",
    "Choice",
    "Dataset",
    "ImportReport",
    "Imported",
    "dataset_root",
    "from_networkx",
    "from_tables",
    "generate",
    "import_tables",
    "listing",
    "load",
    "save_graph",
    "save_mapped",
    "split_for",
    "tasks_path",
]


def __getattr__(name: str) -> Any:
    if name == "generate":  # needs compiled code, which nothing else here does
        from naq.data.generator import generate

        return generate
    raise AttributeError(f"module 'naq.data' has no attribute {name!r}")
