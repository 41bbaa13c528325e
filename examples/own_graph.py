"""Your own graph, a handful of labels: vectors without labels, then classes by the nearest class mean.

python examples/own_graph.py
"""

import numpy as np

import naq

graph = naq.load("debian")  # stands in for naq.Graph(edges, features, nodes=n)
labelled = {
    "perl": ["libdbi-perl", "libwww-perl"],
    "games": ["openttd", "wesnoth-1.16", "supertux"],
    "fonts": ["fonts-dejavu", "fonts-liberation"],
}

vectors = naq.embed(graph.without_labels(), "smooth")
place = {name: i for i, name in enumerate(graph.names)}
means = np.stack([vectors[[place[p] for p in packages if p in place]].mean(axis=0) for packages in labelled.values()])
means /= np.linalg.norm(means, axis=1, keepdims=True)
guess = (vectors @ means.T).argmax(axis=1)
for package in ("libjson-perl", "freeciv", "fonts-noto"):
    if package in place:
        print(f"{package}: {list(labelled)[guess[place[package]]]}")
