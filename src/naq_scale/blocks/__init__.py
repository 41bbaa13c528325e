r"""``smooth`` and ``naq-plus`` in blocks, for graphs larger than memory: vectors go to a memory-mapped file.

Three things are never held whole: features and what is made of them are read in blocks of rows, an embedding is written in blocks of rows, and smoothing,

.. math:: Z \leftarrow 0.85\, \hat A Z + 0.15\, Z_0,

goes by columns: no column of Z needs another, so some columns of all nodes (a tile) are held in memory for all steps, while the adjacency is read from its file once per step.
Row blocks of Z would have to read rows of all other blocks in random order. Memory: 3 tiles (12 bytes per node and column of a tile, one column at least) and some blocks of rows; disk: twice the embedding while it is made.

The numbers are those of the methods in memory but for the order of additions. Up to 65,536 nodes the closed form takes every node's neighbours, above that those of a sample of
65,536, which estimates the same mean over pairs.
"""

from naq_scale.blocks.embedder import IN_BLOCKS, embed_to
from naq_scale.blocks.parts import Arrays, Bounds, Parts, Work, as_pieces, computed
from naq_scale.blocks.pieces import Pieces
from naq_scale.blocks.row_passes import RowPasses
from naq_scale.blocks.tiles import narrow_start, smoothed_tiles

__all__ = [
    "IN_BLOCKS",
    "Arrays",
    "Bounds",
    "Parts",
    "Pieces",
    "RowPasses",
    "Work",
    "as_pieces",
    "computed",
    "embed_to",
    "narrow_start",
    "smoothed_tiles",
]
