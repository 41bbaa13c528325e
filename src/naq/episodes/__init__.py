"""What one training step sees: episodes as whole arrays."""

from naq.episodes.episodes import Episodes, load_episodes
from naq.episodes.naq import naq_episodes
from naq.episodes.supervised import supervised_episodes
from naq.episodes.umtra import umtra_episodes

__all__ = ["Episodes", "load_episodes", "naq_episodes", "supervised_episodes", "umtra_episodes"]
