"""
Why neighbours can stand in for labels
======================================

NaQ takes the nodes nearest to a node for members of its class. How often is that true, and what do training episodes
made of them look like?
"""

# %%
# Packages of eight sections. Labels are read here only to check the idea; nothing below them reads any.

import matplotlib.pyplot as plt
import numpy as np

import naq

debian = naq.load("debian")
sections = ["editors", "games", "haskell", "mail", "math", "php", "sound", "video"]
numbers = [debian.class_names.tolist().index(name) for name in sections]
keep = np.flatnonzero(np.isin(debian.labels, numbers))
graph = naq.Graph(
    debian.adjacency[keep][:, keep], debian.features[keep], debian.labels[keep], class_names=debian.class_names
)
print(graph)

# %%
# Nearest by words (cosine) and by the graph (personalised PageRank); both tables are exact or bounded in their error.

tables = {
    "by features": naq.feature_neighbors(graph.without_labels(), k=10),
    "by diffusion": naq.diffusion_neighbors(graph.without_labels(), k=10),
}

# %%
# The share of neighbours that have the class of their node, the nearest first; grey: what two random nodes would give.

fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
for name, table in tables.items():
    there = table.ids >= 0
    same = (graph.labels[table.ids] == graph.labels[:, None]) & there
    ax.plot(np.arange(1, 11), same.sum(axis=0) / there.sum(axis=0), marker="o", label=name)
share = np.bincount(graph.labels)[numbers] / graph.num_nodes
ax.axhline((share**2).sum(), color="grey", label="random nodes")
ax.set(xlabel="rank of the neighbour", ylabel="share of the same class", ylim=(0, 1))
ax.legend(frameon=False)
plt.show()

# %%
# An episode: five random nodes as supports, the ten nearest of each as its queries. Thousands take milliseconds.

episodes = naq.naq_episodes(tables["by features"], way=5, queries=10, count=1_000)
print(episodes.support.shape, episodes.query.shape, episodes.mask.mean())

# %%
# How often do the queries of one support appear among those of another? That is the overlap ratio; small is good.

print(f"{episodes.overlap_ratio():.4f}")
