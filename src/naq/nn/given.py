"""A module of one's own where a GCN stands: anything with ``forward(x, edge_index)``, as the models of PyG have it.

The module reads the whole graph in every pass. In an update it is in training mode, and what it draws from torch's
global generators (dropout, for one) follows from the seed, the update and the number of the pass. Everywhere else it is
in evaluation mode and has to give the same vectors every time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from types import CodeType
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call
from torch.nn.parameter import is_lazy

from naq.device import require
from naq.errors import OptionError
from naq.graph.operators import csr_tensor
from naq.nn.augment import AugmentedOperator
from naq.nn.operator import GraphOperator, Operator
from naq.random import torch_seed

MakeEncoder = Callable[[int], nn.Module]
"""A class, or a function of the number of input features, that makes an encoder."""
MAKES = "expected a class, or a function of the number of input features, that makes a torch.nn.Module"
FORWARD = "expected forward(x, edge_index) to give one row of floating-point numbers for every node"

Inputs = tuple[torch.Tensor, torch.Tensor]
"""``x`` (n, d) and ``edge_index`` (2, edges)."""


class GivenEncoder(nn.Module):
    """An encoder that the user makes.

    Sparse features come as a sparse CSR tensor, which the linear first layers of PyG (GCN, GAT, GATv2, ...) take, and
    as a dense one where the module fails on that. Edges go both ways and have no weights, as the GCN here reads them.

    Args:
        operator: the graph it reads.
        make: makes the module.
        seed: of the initial weights, and of what is drawn in updates.

    Attributes:
        latent: width of the vectors.

    Shapes:
        - ``encode``: nodes (m,) -> (m, latent), on the operator's device
        - ``encode_all``: (n, latent)

    Cost: every call is a pass over all nodes and edges.
    """

    def __init__(self, operator: GraphOperator, make: MakeEncoder, *, seed: int = 0) -> None:
        super().__init__()
        self.operator, self.seed = operator, seed
        self.module = make_module(make, operator.width, seed)
        features = operator.graph.require_features("an encoder")
        self._sparse = not isinstance(features, np.ndarray)
        with _seeded(torch_seed(seed, "encoder/given/first pass"), operator.device):  # lazy layers draw weights in it
            if self._sparse:
                try:
                    self._inputs = self._read(operator)
                    self.latent = self._tried()
                    return
                except Exception:  # the module may take dense features alone
                    self._sparse = False
            dense = 4.0 * operator.graph.num_nodes * operator.width
            require(dense, f"encoder {self.name} with dense features", "lower the number of features first")
            self._inputs = self._read(operator)
            self.latent = self._tried()

    @property
    def name(self) -> str:
        return type(self.module).__name__

    def encode(self, nodes: np.ndarray, operator: Operator | None = None) -> torch.Tensor:
        """Vectors of ``nodes``, repeats allowed; ``operator`` is another view of the graph."""
        return self._rows(nodes, self._pass(self._inputs_of(operator)))

    encode_blocks = encode  # a pass gives all nodes anyway

    @torch.no_grad()
    def encode_all(self) -> torch.Tensor:
        """Vectors of all nodes."""
        return self._pass(self._inputs)

    def in_training(self, update: int) -> Callable[..., torch.Tensor]:
        """``encode(nodes, operator, weights=None)`` as an update does it; ``weights`` by the names of this module's
        parameters take their place."""
        passes = count()

        def encode(
            nodes: np.ndarray, operator: Operator | None = None, weights: Mapping[str, torch.Tensor] | None = None
        ) -> torch.Tensor:
            with _seeded(torch_seed(self.seed, f"encoder/given/{next(passes)}", update), self.operator.device):
                return self._rows(nodes, self._pass(self._inputs_of(operator), training=True, weights=weights))

        return encode

    def _pass(
        self, inputs: Inputs, *, training: bool = False, weights: Mapping[str, torch.Tensor] | None = None
    ) -> torch.Tensor:
        self.module.train(training)
        if weights is None:
            found = self.module(*inputs)
        else:
            found = functional_call(self.module, {k.removeprefix("module."): v for k, v in weights.items()}, inputs)
        return found.float() if torch.is_tensor(found) and found.is_floating_point() else found

    def _rows(self, nodes: np.ndarray, vectors: torch.Tensor) -> torch.Tensor:
        known = self.operator.graph.known_nodes(nodes).ravel().astype(np.int64)
        # F.embedding: the gradient of an index sums in an order that depends on the number of threads.
        return F.embedding(torch.from_numpy(known).to(self.operator.device), vectors)

    def _inputs_of(self, operator: Operator | None) -> Inputs:
        return self._inputs if operator is None or operator is self.operator else self._read(operator)

    def _read(self, view: Operator) -> Inputs:
        """What the module reads of a view of the graph."""
        graph, device = view.graph, self.operator.device
        features, indptr, indices = (
            graph.require_features("an encoder"),
            graph.adjacency.indptr,
            graph.adjacency.indices,
        )
        columns = np.ones(1, dtype=np.float32)
        if isinstance(view, AugmentedOperator):
            columns = view.columns
            indptr, indices = view.adjacency_rows(np.arange(graph.num_nodes))
        rows = np.repeat(np.arange(graph.num_nodes), np.diff(indptr))
        edges = torch.from_numpy(np.stack([rows, indices]).astype(np.int64)).to(device)
        if isinstance(features, np.ndarray):
            return torch.from_numpy(np.asarray(features, dtype=np.float32) * columns).to(device), edges
        data = features.data if len(columns) == 1 else features.data * columns[features.indices]
        if self._sparse:
            return csr_tensor(features.indptr, features.indices, data, features.shape, device, torch.float32), edges
        dense = sp.csr_array((data, features.indices, features.indptr), shape=features.shape).toarray()
        return torch.from_numpy(dense.astype(np.float32, copy=False)).to(device), edges

    def _tried(self) -> int:
        """The width of the vectors, once the module has given them twice and a gradient; nothing is changed by it."""
        device, graph = self.operator.device, self.operator.graph
        try:
            self.module.to(device)
            with torch.no_grad():
                one, two = self._pass(self._inputs), self._pass(self._inputs)
        except Exception as error:
            raise OptionError(
                f"encoder {self.name} fails on {graph.num_nodes:,} nodes with {self.operator.width:,} features on "
                f"{device}: {type(error).__name__}: {error}; {FORWARD}."
            ) from error
        if not torch.is_tensor(one) or one.ndim != 2 or len(one) != graph.num_nodes or not one.is_floating_point():
            what = f"shape {tuple(one.shape)} and type {one.dtype}" if torch.is_tensor(one) else type(one).__name__
            raise OptionError(f"encoder {self.name} gives {what} for {graph.num_nodes:,} nodes; {FORWARD}.")
        if one.device != device:
            raise OptionError(f"encoder {self.name} gives vectors on {one.device}, not on {device}; keep them there.")
        if not torch.allclose(one, two, rtol=1e-3, atol=1e-5, equal_nan=True):
            raise OptionError(
                f"encoder {self.name} gives two different answers in evaluation mode; make what it draws depend on "
                "self.training, as torch.nn.Dropout does."
            )
        kept = {name: value.clone() for name, value in self.module.state_dict().items()}
        weights = [weight for weight in self.module.parameters() if weight.requires_grad]
        trained = self._pass(self._inputs, training=True)
        if not weights or not trained.requires_grad:
            raise OptionError(f"encoder {self.name} has no parameters that its vectors depend on; nothing to train.")
        torch.autograd.grad(trained.sum(), weights, allow_unused=True)
        self.module.load_state_dict(kept)
        return int(one.shape[1])


def make_module(make: MakeEncoder, width: int, seed: int) -> nn.Module:
    """The module for ``width`` input features, its initial weights drawn by the seed."""
    if isinstance(make, nn.Module):
        name = type(make).__name__
        raise OptionError(
            f"encoder is a {name} that is made already; give what makes it, e.g. lambda width: {name}(width, ...), so "
            "that every seed begins with weights of its own."
        )
    if not callable(make):
        raise OptionError(f"encoder is {make!r}; {MAKES}.")
    with _seeded(torch_seed(seed, "encoder/given")):
        try:
            module = make(width)
        except Exception as error:
            raise OptionError(
                f"encoder could not be made for {width:,} features: {type(error).__name__}: {error}; {MAKES}."
            ) from error
    if not isinstance(module, nn.Module):
        raise OptionError(f"encoder made a {type(module).__name__}; {MAKES}.")
    return module


def describe_encoder(make: MakeEncoder, width: int, seed: int) -> dict[str, str]:
    """What a run's configuration says of an encoder: its class, its layers, a hash of its initial weights, and one of
    the compiled methods of its classes, but for those of torch and PyG; other Pythons compile otherwise."""
    module, digest = make_module(make, width, seed), hashlib.blake2b(digest_size=12)
    for name, value in module.state_dict().items():
        digest.update(name.encode())
        if not is_lazy(value):
            digest.update(value.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    kinds = dict.fromkeys(type(one) for one in module.modules() if not type(one).__module__.startswith("torch"))
    methods = [_words(getattr(one, "__code__", None)) for kind in kinds for one in vars(kind).values()]
    code = hashlib.blake2b(repr(methods).encode(), digest_size=12).hexdigest()
    return {"class": type(module).__name__, "layers": repr(module), "weights": digest.hexdigest(), "code": code}


def _words(code: Any) -> Any:
    """Instructions, names and constants of a compiled function, and of those within it."""
    if not isinstance(code, CodeType):
        return sorted(map(repr, code)) if isinstance(code, frozenset) else repr(code)  # the order of a set is by chance
    return code.co_code.hex(), code.co_names, *map(_words, code.co_consts)


@contextmanager
def _seeded(seed: int, device: torch.device | None = None) -> Iterator[None]:
    """torch's global generators begin at a seed, and are afterwards as they were."""
    devices: list[Any] = [device] if device is not None and device.type == "cuda" else []
    with torch.random.fork_rng(devices):
        torch.manual_seed(seed)
        yield
