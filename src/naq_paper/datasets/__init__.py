"""Datasets of the paper in their published layouts."""
