"""Ctrl-C between two updates, never inside one."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any


class CleanInterrupt:
    """While active, the first Ctrl-C (or SIGTERM) sets ``asked``; a second Ctrl-C interrupts at once."""

    def __init__(self) -> None:
        self.asked = False
        self._previous: dict[int, Any] = {}

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        if self.asked and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.asked = True

    def __enter__(self) -> CleanInterrupt:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
