"""`python -m minibroker_storage.cleaner.worker`: a plan on standard input, the outcome on standard output, as JSON.

A cleaning is pure Python for each record. On a thread of the broker it would hold the interpreter for up to 5 ms at
a time. So it has a process of its own, which imports little and runs at the lowest priority.

Standard input is also the line of life: the broker keeps it open, and the kernel closes it when the broker dies. The
worker then leaves at once and touches nothing: the directory may be another broker's by now, whose start tidies it.
"""

import contextlib
import os
import signal
import sys
import threading
from typing import Final

from minibroker_protocol.errors import ProtocolError
from minibroker_storage.cleaner.clean import clean
from minibroker_storage.cleaner.plan import CleaningPlan
from minibroker_storage.cleaner.process import BEGUN, encode_error, plan_size
from minibroker_storage.errors import StorageError

NICENESS: Final = 19
"""The lowest priority."""
_STDIN: Final = 0
_GONE: Final = 2


def main() -> int:
    """Clean as the plan says. The status is 0 with a result, 1 with an error, both on standard output."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C at a terminal is for the broker, which ends this process
    os.nice(NICENESS)
    plan = _read(plan_size(_read(plan_size())))
    _say(BEGUN)
    threading.Thread(target=_leave_with_the_broker, daemon=True).start()
    try:
        output = clean(CleaningPlan.from_json(plan)).to_json()
    except (OSError, ProtocolError, StorageError) as error:
        output = encode_error(error)
        status = 1
    else:
        status = 0
    _say(output)
    return status


def _say(output: bytes) -> None:
    with contextlib.suppress(BrokenPipeError):  # the parent has gone
        sys.stdout.buffer.write(output)
        sys.stdout.buffer.flush()


def _read(size: int) -> bytes:
    """So many bytes of standard input; without them there is nothing to do, for the broker is gone."""
    data = b""
    while len(data) < size:
        piece = os.read(_STDIN, size - len(data))
        if not piece:
            os._exit(_GONE)
        data += piece
    return data


def _leave_with_the_broker() -> None:
    os.read(_STDIN, 1)  # nothing more is ever sent
    os._exit(_GONE)


if __name__ == "__main__":
    sys.exit(main())
