"""Commands for large graphs."""
