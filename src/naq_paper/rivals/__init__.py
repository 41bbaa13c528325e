"""Methods of the paper's tables that need no episodes."""
