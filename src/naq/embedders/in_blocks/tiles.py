"""An embedding in tiles, some columns of all nodes each: what smoothing works on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numba import njit, prange

from naq.embedders.smoothing import ROUNDING, SHORTEST, STAY, unit
from naq.graph import Graph
from naq.memory import free_bytes

HELD = 4
"""Tiles that are in memory at once, with room for one more."""


def tile_width(nodes: int, width: int) -> int:
    """Columns of a tile: as many as fit into the memory that is free, a multiple of 16 where that many fit."""
    fitting = max(1, int(free_bytes(torch.device("cpu")) // (4 * HELD * nodes)))
    return min(width, fitting if fitting < 16 else fitting // 16 * 16)


class Tiles:
    """(n, d) float32 on disk, stored by tiles of columns; the last tile may be narrower."""

    def __init__(self, folder: Path, name: str, nodes: int, width: int, tile: int) -> None:
        self.nodes, self.width, self.tile = nodes, width, tile
        self._arrays = [
            np.lib.format.open_memmap(
                folder / f"{name}-{first}.npy", "w+", np.float32, (nodes, min(tile, width - first))
            )
            for first in range(0, width, tile)
        ]

    def like(self, folder: Path, name: str) -> Tiles:
        """Tiles of the same shape."""
        return Tiles(folder, name, self.nodes, self.width, self.tile)

    def __len__(self) -> int:
        return len(self._arrays)

    def array(self, number: int) -> np.ndarray:
        return self._arrays[number]

    def columns(self, number: int) -> slice:
        return slice(number * self.tile, min(self.width, (number + 1) * self.tile))

    def rows(self, start: int, stop: int) -> np.ndarray:
        """(rows, d) of all tiles."""
        return np.concatenate([array[start:stop] for array in self._arrays], axis=1)

    def write(self, start: int, rows: np.ndarray) -> None:
        """(rows, d) from ``start`` on."""
        for number, array in enumerate(self._arrays):
            array[start : start + len(rows)] = rows[:, self.columns(number)]


def smooth_tile(graph: Graph, start: np.ndarray, steps: int, smoothing: str = "ppr") -> np.ndarray:
    """:func:`~naq.embedders.smoothing.smoothed` of some columns; A_hat is never formed."""
    scale, stay = inverse_root_degrees(graph), np.float32(STAY if smoothing == "ppr" else 0.0)
    move = np.float32(1 - STAY if smoothing == "ppr" else 1.0)
    now, out = start, np.empty_like(start)
    for step in range(steps):
        _step(graph.adjacency.indptr, graph.adjacency.indices, scale, now, start, move, stay, out)
        now, out = out, (np.empty_like(start) if step == 0 else now)
    return now


def inverse_root_degrees(graph: Graph) -> np.ndarray:
    """(n,) 1 / sqrt(degree + 1), float64."""
    return 1.0 / np.sqrt(graph.degrees + 1.0)


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
def _step(indptr: Any, indices: Any, scale: Any, now: Any, start: Any, move: Any, stay: Any, out: Any) -> None:
    """out = move A_hat now + stay start; the node itself is added in its place among its neighbours, as in A_hat."""
    for i in prange(len(out)):
        row, own = out[i], now[i]
        for k in range(len(row)):
            row[k] = 0.0
        before = True
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            if before and j > i:
                before = False
                value = np.float32(scale[i] * scale[i])
                for k in range(len(row)):
                    row[k] += value * own[k]
            value, other = np.float32(scale[i] * scale[j]), now[j]
            for k in range(len(row)):
                row[k] += value * other[k]
        if before:
            value = np.float32(scale[i] * scale[i])
            for k in range(len(row)):
                row[k] += value * own[k]
        for k in range(len(row)):
            row[k] = move * row[k] + stay * start[i, k]


@njit(cache=True, parallel=True)
def _agree(indptr: Any, indices: Any, held: Any, mean: Any, scale: Any, middle: Any, dots: Any, squares: Any) -> None:
    """Adds this tile's share of z_i . s_i and s_i . s_i, with s_i the sum over neighbours of z_j - m."""
    width = held.shape[1]
    for i in prange(len(dots)):
        together = -middle * (indptr[i + 1] - indptr[i])
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            for k in range(width):
                together[k] += (held[j, k] - mean[k]) * scale[j]
        dot, square = 0.0, 0.0
        for k in range(width):
            dot += together[k] * ((held[i, k] - mean[k]) * scale[i])
            square += together[k] * together[k]
        dots[i] += dot
        squares[i] += square
