"""The one training loop: progress, evaluation, early stop, checkpoint, resume."""

from naq.training.loop import EpisodeTraining, History, Schedule, Trainable, Trained, fit

__all__ = ["EpisodeTraining", "History", "Schedule", "Trainable", "Trained", "fit"]
