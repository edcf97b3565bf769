"""The lab in the terminal of `minibroker lab --terminal`: a program beside the broker, until its user quits."""

import asyncio
import contextlib
import os
import sys
from importlib.util import find_spec

from minibroker_protocol.lazy_imports import lazy

with lazy:
    from minibroker_storage import installation_hints


def check_terminal() -> None:
    """ValueError outside of a terminal, and without the extra."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise ValueError("--terminal: stdin and stdout are not a terminal")
    if find_spec("textual") is None:
        raise ValueError(f"--terminal: {installation_hints.missing('textual', 'lab')}")


async def show(url: str, token: str | None, stop: asyncio.Event) -> None:
    """Show the page at `url` in the terminal until its user quits, which sets `stop`; or until `stop` is set."""
    environment = {**os.environ} if token is None else {**os.environ, "MINIBROKER_CONTROL_TOKEN": token}
    command = [sys.executable, "-P", "-m", "minibroker_lab.terminal", url]
    child = await asyncio.create_subprocess_exec(*command, env=environment)
    ended = asyncio.ensure_future(child.wait())
    stopped = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait((ended, stopped), return_when=asyncio.FIRST_COMPLETED)
        if not ended.done():
            with contextlib.suppress(ProcessLookupError):
                child.terminate()
        await ended
    finally:
        stopped.cancel()
        stop.set()
