"""Few labels in, a class and a confidence for every node out."""

from naq.classifier.confidence import ExpectedAccuracy, Temperature
from naq.classifier.estimator import FewShotNodeClassifier
from naq.classifier.growing import with_nodes
from naq.classifier.label_file import read_labels
from naq.classifier.labels import Labels
from naq.classifier.table import write_predictions

__all__ = [
    "ExpectedAccuracy",
    "FewShotNodeClassifier",
    "Labels",
    "Temperature",
    "read_labels",
    "with_nodes",
    "write_predictions",
]
