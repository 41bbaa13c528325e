"""Graphs larger than memory, neighbours on large graphs, shards on processes or Ray, CUDA graphs, and estimates."""
