r"""The closed form with a trained view beside it: slower than ``naq-plus``.

On the five graphs of ``docs/beyond.md`` it shows no significant difference from ``naq-plus``: it is there to be
compared with.

.. math:: Z = \mathrm{ClosedForm}\left(\left[\, Z_{\mathrm{smooth}} \,|\, \tfrac12 Z_{\mathrm{SUGRL}} \,\right]\right)

Both parts are centred and have rows of length one before they are put side by side; :mod:`naq.embedders.closed_form`
does the rest. The weights of SUGRL are selected by its own vectors.

Cost: that of SUGRL and that of ``naq-plus`` with twice the width.

Example:
    >>> import naq
    >>> r = naq.run("debian", method="naq-plus/sugrl")  # doctest: +SKIP
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from naq.embedders.closed_form import ClosedForm
from naq.embedders.naq_plus import NaqPlus
from naq.embedders.smoothing import centred
from naq.options import option
from naq_paper.rivals.sugrl import SUGRL

WEIGHT, DIM = 0.5, 256
"""Of the trained vectors beside the smoothed ones, and the width of these."""


class NaqPlusSugrl(SUGRL):
    """SUGRL's vectors at half weight beside the smoothed features, in closed form."""

    name = "naq-plus/sugrl"
    summary = "the closed form of NaQ on smoothed features and SUGRL's vectors side by side"
    inductive = False  # the closed form is of the graph at hand, as naq-plus is

    @dataclass(frozen=True)
    class Options(SUGRL.Options):
        beside: float = option(WEIGHT, at_least=0)  # weight of the trained vectors

    options: Options

    def build(self) -> None:
        self.start = torch.as_tensor(NaqPlus(self.graph, seed=self.seed, device=self.device, dim=DIM).smoothed())
        super().build()

    def encode(self, nodes: np.ndarray) -> torch.Tensor:
        """SUGRL's own vectors: what validation tasks choose by."""
        known = self.graph.known_nodes(nodes).ravel()
        return super().encode_all()[torch.from_numpy(known).to(self.device)]

    @torch.no_grad()
    def encode_all(self) -> torch.Tensor:
        trained = self.options.beside * centred(super().encode_all())
        both = torch.cat([self.start.to(trained), trained], dim=1)
        form = ClosedForm(pairs="mutual", power=1.5, seed=self.seed, device=self.device)
        return torch.from_numpy(form.fit_transform(both)).to(self.device)
