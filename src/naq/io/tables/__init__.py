"""People's own files to graphs: tables of edges and nodes in text or Parquet, GraphML, data frames, NetworkX, SciPy."""

from naq.errors import MissingDependency

try:
    import pyarrow  # noqa: F401
except ImportError as error:
    raise MissingDependency('tables are read with pyarrow: pip install "naq[io]".') from error

from naq.io.tables.importing import Imported, from_networkx, from_tables, import_tables
from naq.io.tables.report import ImportReport
from naq.io.tables.roles import Choice

__all__ = ["Choice", "ImportReport", "Imported", "from_networkx", "from_tables", "import_tables"]
