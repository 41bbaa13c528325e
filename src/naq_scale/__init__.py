"""Graphs larger than memory, shards on processes or Ray, recorded steps on a GPU, and what a run will take."""
