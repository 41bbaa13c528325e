"""Where graphs come from: names, files, splits and tasks that go with them."""

from typing import TYPE_CHECKING, Any

from naq.plugins import imported

if TYPE_CHECKING:
    from naq.io.catalog import DATASETS, Dataset, listing
    from naq.io.download import dataset_root
    from naq.io.loading import load
    from naq.io.npz import save_graph
    from naq.io.splits import split_for, tasks_path
    from naq.io.tables import Choice, Imported, ImportReport, from_networkx, from_tables, import_tables

_PLACES = {
    "catalog": ("DATASETS", "Dataset", "listing"),
    "download": ("dataset_root",),
    "loading": ("load",),
    "npz": ("save_graph",),
    "splits": ("split_for", "tasks_path"),
    "tables": ("Choice", "ImportReport", "Imported", "from_networkx", "from_tables", "import_tables"),
}
_PATHS = {name: f"naq.io.{module}:{name}" for module, names in _PLACES.items() for name in names}
_PATHS["save_mapped"] = "naq_scale.mapped:save_mapped"

__all__ = [
    "DATASETS",
    "Choice",
    "Dataset",
    "ImportReport",
    "Imported",
    "dataset_root",
    "from_networkx",
    "from_tables",
    "import_tables",
    "listing",
    "load",
    "save_graph",
    "save_mapped",
    "split_for",
    "tasks_path",
]


def __getattr__(name: str) -> Any:
    if name not in _PATHS:
        raise AttributeError(f"module 'naq.io' has no attribute {name!r}")
    return imported(_PATHS[name])
