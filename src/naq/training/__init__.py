"""The one training loop: progress, evaluation, early stop, checkpoint, resume."""

from naq.training.checkpoint import History
from naq.training.loop import Schedule, Trained, fit
from naq.training.steps import EpisodeTraining, EpochTraining, Steps, episode_training

__all__ = ["EpisodeTraining", "EpochTraining", "History", "Schedule", "Steps", "Trained", "episode_training", "fit"]
