"""scikit-learn's side of probe_against_sklearn.py: needs NumPy and scikit-learn only, so that it runs on old releases.

python sklearn_probe.py IN.npz OUT.npz, with rows (nodes, d), support, query (count, ids), way and shot in IN.
"""

import sys
import warnings

import numpy as np
import sklearn
from sklearn.linear_model import LogisticRegression


def answer(
    rows: np.ndarray, support: np.ndarray, query: np.ndarray, way: int, shot: int
) -> tuple[np.ndarray, np.ndarray]:
    """Slots (count, queries) and iterations (count,), one fit per task as in the paper's code."""
    version = tuple(int(part) for part in sklearn.__version__.split(".")[:2])
    options = {"multi_class": "multinomial"} if version < (1, 5) else {}
    labels = np.repeat(np.arange(way), shot)
    slots, iterations = np.empty(query.shape, dtype=np.int64), np.empty(len(query), dtype=np.int64)
    for task in range(len(query)):
        probe = LogisticRegression(solver="lbfgs", C=1e4, max_iter=1000, tol=1e-4, **options)
        probe.fit(rows[support[task]].astype(np.float64), labels)
        slots[task] = probe.predict(rows[query[task]].astype(np.float64))
        iterations[task] = probe.n_iter_[0]
    return slots, iterations


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    with np.load(sys.argv[1]) as given:
        slots, iterations = answer(
            given["rows"], given["support"], given["query"], int(given["way"]), int(given["shot"])
        )
    np.savez(sys.argv[2], slots=slots, iterations=iterations, version=sklearn.__version__)
