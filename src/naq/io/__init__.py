"""Where graphs come from: names, files, splits and tasks that go with them."""

from typing import Any

from naq.io.catalog import DATASETS, Dataset, listing
from naq.io.download import dataset_root
from naq.io.loading import load
from naq.io.npz import save_graph
from naq.io.splits import split_for, tasks_path
from naq.io.tables import Choice, Imported, ImportReport, from_networkx, from_tables, import_tables
from naq_scale.mapped import save_mapped

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
        from naq.io.generator import generate

        return generate
    raise AttributeError(f"module 'naq.io' has no attribute {name!r}")
