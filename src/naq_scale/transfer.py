"""Results on their way from a GPU to the host, which goes on meanwhile."""

from __future__ import annotations

import torch


class Transfer:
    """A copy of a tensor of a GPU in memory of the host; begun at once, waited for where it is read."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self._host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
        self._host.copy_(tensor.detach(), non_blocking=True)
        self._done = torch.cuda.Event()
        self._done.record()

    def result(self) -> torch.Tensor:
        self._done.synchronize()
        return self._host
