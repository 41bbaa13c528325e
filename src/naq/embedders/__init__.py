"""Methods that need no episodes: one module each, or a package of its own name where one module is not enough.

A module or package that is added here is found by the name it registers. Shared: ``convolutions`` (the encoder of BGRL, AFGRL and COLA, and views of a graph),
``teacher`` (a copy that follows slowly), ``dropout``, ``fixed_order`` (sums that do not depend on the number of threads), ``smoothing`` (what `smooth` and
`naq-plus` start from) and ``refinement`` (the closed form of NaQ, on any vectors).
"""

from naq.embedders.base import EMBEDDERS, Embedder, register_embedder
from naq.embedders.refinement import refined

__all__ = ["EMBEDDERS", "Embedder", "refined", "register_embedder"]
