"""Few labels in, a class and a confidence for every node out."""

from naq.plugins import on_first_use

_PUBLIC = {
    "DoubtfulLabel": "confidence",
    "ExpectedAccuracy": "confidence",
    "FewShotNodeClassifier": "estimator",
    "Labels": "labels",
    "read_labels": "labels",
    "with_nodes": "extend",
    "write_predictions": "table",
}

__all__ = list(_PUBLIC)
__getattr__ = on_first_use(__name__, _PUBLIC)
