"""What people with a graph and a few labels use: one class per method, all called in the same way."""

from naq_paper.peers.base import PEERS, Peer

__all__ = ["PEERS", "Peer"]
