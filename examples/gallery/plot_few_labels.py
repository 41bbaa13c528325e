"""
Three labels in each of six classes
===================================

A graph, eighteen labels, a class with a probability for every other node, and a map of all of them.
"""

# %%
# The graph: all source packages of Debian in six sections, who depends on whom, and the words of their descriptions.
# The sections themselves are set aside and only used at the end, to see how many predictions are right.

import matplotlib.pyplot as plt
import numpy as np

import naq

debian = naq.load("debian")
sections = ["editors", "games", "java", "mail", "math", "sound"]
numbers = [debian.class_names.tolist().index(name) for name in sections]
keep = np.flatnonzero(np.isin(debian.labels, numbers))
truth = debian.class_names[debian.labels[keep]]
graph = naq.Graph(debian.adjacency[keep][:, keep], debian.features[keep], names=debian.names[keep], vocab=debian.vocab)
print(graph)

# %%
# ``fit`` sees the graph and no labels. Labels come afterwards, by name.

classifier = naq.FewShotNodeClassifier().fit(graph)
few = {
    "editors": ["vim", "emacs", "kate"],
    "games": ["minetest", "scummvm", "warzone2100"],
    "java": ["maven", "commons-io", "gradle"],
    "mail": ["exim4", "thunderbird", "notmuch"],
    "math": ["octave", "sagemath", "gap"],
    "sound": ["pulseaudio", "sox", "fluidsynth"],
}
labels = {package: section for section, packages in few.items() for package in packages}
predicted = classifier.set_labels(labels).predict()
probability = classifier.predict_proba().max(axis=1)

# %%
# What accuracy to expect is estimated from the labels and the graph alone. Here the truth is known, so both can be
# shown. The interval was measured with labels drawn at random; a person who picks well-known packages, as here, draws
# otherwise, and the truth may be outside.

given = np.isin(graph.names, list(labels))
print("expected:", classifier.expected_accuracy())
print(f"true: {100 * (predicted == truth)[~given].mean():.0f} % of {np.count_nonzero(~given):,} packages")

# %%
# A map: the two directions in which the vectors vary most. Rings are the labels, paler points are less sure.

vectors = classifier.transform()
centred = vectors - vectors.mean(axis=0)
place = centred @ np.linalg.svd(centred, full_matrices=False)[2][:2].T
fig, ax = plt.subplots(figsize=(8, 5.5), layout="constrained")
for number, section in enumerate(sections):
    mine = predicted == section
    ax.scatter(*place[mine].T, s=6, color=f"C{number}", alpha=probability[mine] ** 2, linewidths=0)
    ax.scatter(*place[mine & given].T, s=60, color=f"C{number}", edgecolors="black", label=section)
ax.set(title="Predicted classes", xticks=[], yticks=[])
ax.legend(frameon=False)
plt.show()

# %%
# The probabilities mean something: among packages that get about 80 %, about 80 % should be right.

edges = np.array([0.2, 0.4, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0])
group = np.digitize(probability[~given], edges[1:-1])
right = (predicted == truth)[~given]
shown = [
    (probability[~given][group == i].mean(), right[group == i].mean(), np.count_nonzero(group == i))
    for i in range(len(edges) - 1)
    if np.any(group == i)
]
said, true, count = np.array(shown).T
fig, ax = plt.subplots(figsize=(5, 4.5), layout="constrained")
ax.plot([0, 1], [0, 1], color="grey", linewidth=1)
ax.scatter(said, true, s=20 + count / 8)
ax.set(
    xlabel="probability given",
    ylabel="share that is right",
    xlim=(0.2, 1.02),
    ylim=(0.2, 1.02),
    title="Size: number of packages",
)
plt.show()
