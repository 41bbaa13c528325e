"""The paper's tables and analyses, one file each."""

from naq.registry import discover

discover(__name__, __path__)
