"""Shared by the drivers in Python: checks that run one after another, each with a line of JSON.

A driver first prints {"checks": [names]}, so that a check that never ends is known by its name, and then one line for
each: {"check": name, "ok": bool, "error": text}. It takes the bootstrap address and a prefix for everything it creates.
"""

import faulthandler
import json
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any, Final, NoReturn, TypeAlias

LIMIT: Final = float(os.environ.get("CHECK_SECONDS", "300"))
"""Seconds for one check: so many that only what hangs reaches them, on a slow machine, too."""

PATIENCE: Final = LIMIT * 3 / 5
"""Seconds for one step of a check, whose own error says more than that the check did not end."""

SESSION_MS: Final = 20_000
"""The session timeout of members: long for a slow machine, though a group may wait for it when one of them goes."""

Check: TypeAlias = Callable[[], None]


def run(checks: dict[str, Check], seconds: float = LIMIT, end: Check | None = None) -> NoReturn:
    """Run the checks that the environment variable ONLY names, or all of them; then call `end` and end the process.

    Each has `seconds` and a thread of its own: one that never ends is left behind.
    """
    if chosen := os.environ.get("ONLY", "").split():
        checks = {name: check for name, check in checks.items() if name in chosen}
    _say({"checks": list(checks)})
    try:
        for name, check in checks.items():
            errors: list[str] = [f"nothing came of it within {seconds:.0f} s"]
            thread = threading.Thread(target=_attempt, args=(check, errors), daemon=True)
            thread.start()
            thread.join(seconds)
            if thread.is_alive():
                errors.append(f"{errors[0]}: it is at {_place_of(thread)}")
            _say({"check": name, "ok": not errors[-1], "error": errors[-1]})
    finally:
        if end is not None:
            end()
    sys.stdout.flush()
    os._exit(0)  # clients whose checks are left behind would hold the end up


def _attempt(check: Check, errors: list[str]) -> None:
    try:
        check()
    except BaseException as error:  # noqa: BLE001 - whatever it is, it is the result
        place = traceback.extract_tb(error.__traceback__)[-1]
        errors.append(f"{type(error).__name__}: {error} ({place.name}, {place.lineno})"[:500])
        if os.environ.get("TRACEBACKS"):
            traceback.print_exc()
    else:
        errors.append("")


def _place_of(thread: threading.Thread) -> str:
    """The innermost functions that a thread is in, with their lines."""
    frame = sys._current_frames().get(thread.ident or 0)
    stack = traceback.extract_stack(frame) if frame is not None else []
    return " < ".join(f"{entry.name}:{entry.lineno}" for entry in reversed(stack[-8:]))


def _say(line: dict[str, Any]) -> None:
    print(json.dumps(line), flush=True)  # noqa: T201 - the answer


def eventually(condition: Callable[[], object], seconds: float = PATIENCE) -> None:
    """Ask again until it is so. AssertionError if it never is."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


def refused(call: Callable[[], object], *words: str) -> None:
    """Call it, and expect an error whose text has one of the words. AssertionError if there is none, or another one."""
    try:
        result = call()
    except Exception as error:
        text = f"{type(error).__name__} {error!r} {error}"
        if any(word in text for word in words):
            return
        raise
    raise AssertionError(f"it was not refused: {result!r}"[:300])


faulthandler.enable()
