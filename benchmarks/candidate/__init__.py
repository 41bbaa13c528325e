"""A candidate for the classifier: several views of the graph, a closed-form expert on each, and weights, confidence and
doubt from labels that are left out. Measured by ``benchmarks/label_stack.py``; the library does not use it.
"""
