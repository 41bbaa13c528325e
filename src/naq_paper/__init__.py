"""The paper: rivals, datasets, cells, experiments, statistics and the report."""
