"""The same learner on three kinds of episodes, on the same tasks.

python examples/compare_episodes.py [EPISODES]
"""

import sys

import naq

episodes = int(sys.argv[1]) if len(sys.argv) > 1 else 640
graph = naq.load("debian")
for kind in ("naq-feat", "naq-diff", "supervised"):
    print(naq.run(graph, f"{kind}/protonet", episodes=episodes, options={"lr": 3e-4}))
