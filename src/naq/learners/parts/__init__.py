"""What learners are made of: batches of tasks, inner loops, sub-graphs. One file per learner stays in the folder above."""
