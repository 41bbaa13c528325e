"""The one training loop: progress, evaluation, early stop, checkpoint, resume."""

from naq.training.history import History, Schedule, Trained
from naq.training.loop import Fitting, fit, fit_together
from naq.training.trainable import EpisodeTraining, EpochTraining, Trainable, episode_training

__all__ = [
    "EpisodeTraining",
    "EpochTraining",
    "Fitting",
    "History",
    "Schedule",
    "Trainable",
    "Trained",
    "episode_training",
    "fit",
    "fit_together",
]
