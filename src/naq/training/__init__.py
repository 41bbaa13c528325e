"""The one training loop: progress, evaluation, early stop, checkpoint, resume."""

from naq.training.captured import CapturedTraining, episode_training
from naq.training.loop import History, Schedule, Trained, fit
from naq.training.trainable import EpisodeTraining, EpochTraining, Trainable

__all__ = [
    "CapturedTraining",
    "EpisodeTraining",
    "EpochTraining",
    "History",
    "Schedule",
    "Trainable",
    "Trained",
    "episode_training",
    "fit",
]
