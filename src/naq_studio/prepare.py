"""What takes long, in a separate process, so that the page answers meanwhile: fit the classifier, arrange the map.

``python -m naq_studio.prepare GRAPH.npz FOLDER METHOD SEED`` writes the classifier and the map into the folder, each
whole or not at all, and a line of JSON per phase to standard output.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from pathlib import Path

from naq.threads import prepare_process


def run_process() -> None:
    prepare_process()
    warnings.simplefilter("ignore")
    if hasattr(os, "nice"):
        os.nice(5)  # answering the page comes first
    graph_path, folder_name, method, seed_text = sys.argv[1:5]
    from naq.errors import NaqError

    try:
        prepare(Path(graph_path), Path(folder_name), method, int(seed_text))
    except NaqError as error:
        tell("failed", str(error))
        sys.exit(2)


def prepare(graph_path: Path, folder: Path, method: str, seed: int) -> None:
    """Whatever of the two is not there yet."""
    from naq.classifier.storage import CLASSIFIER
    from naq.io.npz import read_graph
    from naq_studio.cache import pacmap_layout, read_layout, write_layout

    graph = read_graph(graph_path)
    from naq.classifier import FewShotNodeClassifier

    path = folder / CLASSIFIER
    if path.is_file():
        classifier = FewShotNodeClassifier.load(path, graph)
    else:
        tell("learn")
        classifier = FewShotNodeClassifier(method, seed=seed).fit(graph)
        classifier.save(path)
        tell("learned")
    if read_layout(folder, "pacmap", graph.num_nodes) is None:
        tell("arrange")
        write_layout(folder, "pacmap", pacmap_layout(classifier.vectors_, seed))
    tell("arranged")


def tell(phase: str, text: str = "") -> None:
    print(json.dumps({"phase": phase, "text": text}), flush=True)


if __name__ == "__main__":
    run_process()
