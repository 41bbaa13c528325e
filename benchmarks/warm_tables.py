"""Build the neighbour tables that the learner table needs, so that its workers find them in the cache."""

from __future__ import annotations

import naq
from learner_table import DATASETS
from naq.graph import weighted
from naq.neighbors.subgraphs import ppr_subgraphs
from naq.neighbors.table import cache_folder


def main() -> None:
    for source in DATASETS.values():
        graph = weighted(naq.load(source), "auto").without_labels()
        naq.feature_neighbors(graph, 10, cache=cache_folder())
        naq.diffusion_neighbors(graph, 10, cache=cache_folder())
        ppr_subgraphs(graph, 20, cache=cache_folder())
        print(f"{graph.name}: tables are in the cache")


if __name__ == "__main__":
    main()
