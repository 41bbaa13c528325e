"""
Label, look, label what is suggested
====================================

Start from two labels per class, then label what ``suggest`` names, five at a time; watch expected and true accuracy.
"""

# %%
# Packages of six sections; Debian's own section answers whenever a label is asked for.

import matplotlib.pyplot as plt
import numpy as np

import naq

debian = naq.load("debian")
sections = ["editors", "games", "java", "mail", "math", "sound"]
numbers = [debian.class_names.tolist().index(name) for name in sections]
keep = np.flatnonzero(np.isin(debian.labels, numbers))
truth = debian.class_names[debian.labels[keep]]
graph = naq.Graph(debian.adjacency[keep][:, keep], debian.features[keep], names=debian.names[keep])
classifier = naq.FewShotNodeClassifier().fit(graph)

rng = np.random.default_rng(0)
first = np.concatenate([rng.choice(np.flatnonzero(truth == section), 2, replace=False) for section in sections])
labels = {int(node): str(truth[node]) for node in first}

# %%
# One round: predict, note what is expected and what is true, label five more.

rounds = []
for _ in range(9):
    predicted = classifier.set_labels(labels).predict()
    other = np.setdiff1d(np.arange(graph.num_nodes), list(labels))
    expected = classifier.expected_accuracy()
    rounds.append((len(labels), expected.value, expected.low, expected.high, (predicted == truth)[other].mean()))
    labels |= {int(node): str(truth[node]) for node in classifier.suggest(5)}

count, value, low, high, true = np.array(rounds).T
fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
ax.fill_between(count, low, high, alpha=0.2, label="interval, nine of ten cases")
ax.plot(count, value, marker="o", label="expected from labels and graph")
ax.plot(count, true, marker="s", color="black", label="true")
ax.set(xlabel="labels given", ylabel="accuracy on the other packages", ylim=(0.5, 1))
ax.legend(frameon=False)
plt.show()

# %%
# What would be labelled next, and why these: they stand for many others, or lie between two classes.

print([str(graph.names[node]) for node in classifier.suggest(5)])
