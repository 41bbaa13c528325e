"""Commands that reproduce the paper and report it."""
