"""What became of the cells of a run."""

from __future__ import annotations

from dataclasses import dataclass, field

from naq.grid.cells import Cell


@dataclass(frozen=True)
class Failure:
    cell: Cell
    sentence: str


@dataclass
class Outcome:
    """What became of the cells.

    Attributes:
        done: computed now.
        skipped: were finished before, or by another process meanwhile.
        failed: failed now.
        left: failed in an earlier run and were left alone.
        busy: another process computes them.
        stopped: Ctrl-C ended the run before all was done.
    """

    done: list[Cell] = field(default_factory=list)
    skipped: list[Cell] = field(default_factory=list)
    failed: list[Failure] = field(default_factory=list)
    left: list[Failure] = field(default_factory=list)
    busy: list[Cell] = field(default_factory=list)
    stopped: bool = False

    @property
    def complete(self) -> bool:
        """Every cell that was asked for has its result."""
        return not (self.failed or self.left or self.busy or self.stopped)
