"""Smoothing of tiles (:mod:`naq.encoders.tiles`), and the agreement of edges with what is smoothed."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, prange

from naq.embedders.smoothing import ROUNDING, SHORTEST, STAY, unit
from naq.encoders.tiles import AHEAD, Tiles, ask_for_row, inverse_root_degrees, multiply_rows
from naq.graph import Graph


def smooth_tile(graph: Graph, start: np.ndarray, steps: int, smoothing: str = "ppr") -> np.ndarray:
    """:func:`~naq.embedders.smoothing.smoothed` of some columns; A_hat is never formed."""
    scale, stay = inverse_root_degrees(graph), np.float32(STAY if smoothing == "ppr" else 0.0)
    move = np.float32(1 - STAY if smoothing == "ppr" else 1.0)
    now, out = start, np.empty_like(start)
    for step in range(steps):
        multiply_rows(graph.adjacency.indptr, graph.adjacency.indices, scale, now, start, move, stay, out)
        now, out = out, (np.empty_like(start) if step == 0 else now)
    return now


class Agreement:
    """Of edges with the start, tile by tile: the cosine of a node and its neighbours needs sums over columns alone."""

    def __init__(self, graph: Graph, tiles: Tiles, block: int) -> None:
        self.graph, self.tiles = graph, tiles
        n = tiles.nodes
        total = np.zeros(tiles.width)
        for start in range(0, n, block):
            total += unit(tiles.rows(start, start + block)).sum(axis=0, dtype=np.float64)
        self.mean = (total / n).astype(np.float32)
        self.scale = np.empty(n, dtype=np.float32)
        for start in range(0, n, block):
            length = np.linalg.norm((unit(tiles.rows(start, start + block)) - self.mean).astype(np.float64), axis=1)
            inverse = np.divide(1.0, length, out=np.zeros_like(length), where=length > ROUNDING)
            self.scale[start : start + block] = inverse
        self.dots, self.squares = np.zeros(n), np.zeros(n)

    def add(self, number: int, held: np.ndarray) -> None:
        """Take a tile's columns into account."""
        degrees = self.graph.degrees
        if not degrees.any():
            return
        adjacency, mean = self.graph.adjacency, self.mean[self.tiles.columns(number)]
        weights = degrees / degrees.sum()
        middle = (weights * self.scale) @ held - (weights * self.scale).sum() * mean.astype(np.float64)
        _agree(adjacency.indptr, adjacency.indices, held, mean, self.scale, middle, self.dots, self.squares)

    def value(self) -> float:
        joined = int((self.graph.degrees > 0).sum())
        if not joined:
            return 0.0
        length = np.sqrt(self.squares)
        return float(np.divide(self.dots, length, out=np.zeros_like(length), where=length > SHORTEST).sum()) / joined


@njit(cache=True, parallel=True)
def _agree(indptr: Any, indices: Any, held: Any, mean: Any, scale: Any, middle: Any, dots: Any, squares: Any) -> None:
    """Adds this tile's share of z_i . s_i and s_i . s_i, with s_i the sum over neighbours of z_j - m."""
    width = held.shape[1]
    for i in prange(len(dots)):
        together = -middle * (indptr[i + 1] - indptr[i])
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            if e + AHEAD < len(indices):
                ask_for_row(held, scale, indices[e + AHEAD])
            for k in range(width):
                together[k] += (held[j, k] - mean[k]) * scale[j]
        dot, square = 0.0, 0.0
        for k in range(width):
            dot += together[k] * ((held[i, k] - mean[k]) * scale[i])
            square += together[k] * together[k]
        dots[i] += dot
        squares[i] += square
