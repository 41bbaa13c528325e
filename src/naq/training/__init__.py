"""The one training loop: progress, evaluation, early stop, checkpoint, resume."""

from naq.training.loop import History, Schedule, Trained, fit
from naq.training.trainable import EpisodeTraining, EpochTraining, Trainable

__all__ = ["EpisodeTraining", "EpochTraining", "History", "Schedule", "Trainable", "Trained", "fit"]
