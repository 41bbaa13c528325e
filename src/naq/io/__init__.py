"""Where graphs come from: names, files, splits and tasks that go with them."""

from typing import TYPE_CHECKING

from naq.options import on_first_use

if TYPE_CHECKING:
    from naq.io.catalog import DATASETS, Dataset, listing
    from naq.io.download import dataset_root
    from naq.io.loading import load, load_tables
    from naq.io.npz import save_graph
    from naq.io.splits import split_for, tasks_path
    from naq.io.tables import Choice, Imported, ImportReport, from_networkx, from_tables, import_tables
    from naq.io.tables.icebug import save_icebug

__all__ = [
    "DATASETS", "Choice", "Dataset", "ImportReport", "Imported", "dataset_root", "from_networkx", "from_tables",
    "import_tables", "listing", "load", "load_tables", "save_graph", "save_icebug", "save_mapped", "split_for",
    "tasks_path",
]  # fmt: skip

__getattr__ = on_first_use(
    __name__,
    {
        **dict.fromkeys(("DATASETS", "Dataset", "listing"), "catalog"),
        **dict.fromkeys(("Choice", "Imported", "ImportReport"), "tables"),
        **dict.fromkeys(("from_networkx", "from_tables", "import_tables"), "tables"),
        **dict.fromkeys(("split_for", "tasks_path"), "splits"),
        "dataset_root": "download",
        **dict.fromkeys(("load", "load_tables"), "loading"),
        "save_graph": "npz",
        "save_icebug": "tables.icebug",
        "save_mapped": "naq_scale.mapped:save_mapped",
    },
)
