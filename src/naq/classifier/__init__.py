"""Few labels in, a class and a confidence for every node out."""

from naq.options import on_first_use

_PUBLIC = {
    "DoubtfulLabel": "prediction",
    "ExpectedAccuracy": "prediction",
    "FewShotNodeClassifier": "estimator",
    "Labels": "labels",
    "read_labels": "labels",
    "with_nodes": "extend",
    "with_rows": "extend",
    "write_predictions": "table",
}

__all__ = list(_PUBLIC)
__getattr__ = on_first_use(__name__, _PUBLIC)
