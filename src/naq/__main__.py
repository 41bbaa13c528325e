"""``python -m naq`` is the same program as ``naq``."""

from naq.cli import main

main()
