"""Event loops that serve sockets and end on signals, also on Windows, whose own loops do neither."""

import asyncio
import signal
import sys
from typing import Final

LOOP_FACTORY: Final = asyncio.SelectorEventLoop if sys.platform == "win32" else None


def make_stop_event() -> asyncio.Event:
    """Return an event of the running loop that SIGTERM and SIGINT set."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        try:
            loop.add_signal_handler(number, stop.set)
        except NotImplementedError:
            signal.signal(number, lambda _number, _frame: loop.call_soon_threadsafe(stop.set))
    return stop
