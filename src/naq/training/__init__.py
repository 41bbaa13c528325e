"""The one training loop: progress, evaluation, early stop, checkpoint, resume."""

from naq.training.checkpoint import History, Steps
from naq.training.loop import EpisodeTraining, EpochTraining, Schedule, Trained, episode_training, fit

__all__ = ["EpisodeTraining", "EpochTraining", "History", "Schedule", "Steps", "Trained", "episode_training", "fit"]
