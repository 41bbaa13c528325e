"""The command line. Nothing heavy is imported before a command needs it."""

from naq.cli.main import main

__all__ = ["main"]
