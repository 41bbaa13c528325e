"""Fixtures of the paper's datasets."""

from small_datasets import small, write_gpn  # noqa: F401
