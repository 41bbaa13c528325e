"""Encoders as a user writes them, with layers of PyG."""

import torch
from torch import nn
from torch_geometric.nn import GATv2Conv, GCNConv


class PygGCN(nn.Module):
    """The GCN of this library, by PyG."""

    def __init__(self, width, hidden=16, latent=8, kind=GCNConv):
        super().__init__()
        self.first, self.last = kind(width, hidden), kind(hidden, latent)

    def forward(self, x, edge_index):
        return torch.relu(self.last(torch.relu(self.first(x, edge_index)), edge_index))


class GAT(nn.Module):
    """GATv2 with dropout of features and of attention, as in PyG's examples."""

    def __init__(self, width, dropout=0.5):
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.first = GATv2Conv(width, 4, heads=2, dropout=dropout)
        self.last = GATv2Conv(8, 8, dropout=dropout)

    def forward(self, x, edge_index):
        return self.last(self.dropout(self.first(x, edge_index).relu()), edge_index)
