"""The one training loop: progress, evaluation, early stop, checkpoint, resume."""

from naq.training.loop import EpisodeTraining, EpochTraining, History, Schedule, Trainable, Trained, fit

__all__ = ["EpisodeTraining", "EpochTraining", "History", "Schedule", "Trainable", "Trained", "fit"]
