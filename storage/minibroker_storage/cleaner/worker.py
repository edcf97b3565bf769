"""`python -m minibroker_storage.cleaner.worker` reads a plan from standard input and writes the outcome as JSON.

The cleaner processes every record in pure Python. In a thread of the broker, it would block the interpreter for up to
5 ms at a time. The worker is therefore a separate process, which imports little and runs at the lowest priority.

The broker keeps the worker's standard input open, and the kernel closes it when the broker dies. The worker then exits
immediately without touching a file. The directory might already belong to another broker, which cleans up when it
starts.
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
from minibroker_storage.cleaner.process import READY, encode_error
from minibroker_storage.errors import StorageError

NICENESS: Final = 19
"""The lowest priority."""
_STDIN: Final = 0
_STATUS_WITHOUT_BROKER: Final = 2


def main() -> int:
    """Run a cleaning plan, write the result or an error to standard output, and return the exit status.

    The status is 0 for a result and 1 for an error.
    """
    # Ctrl-C also reaches this process, but the broker must handle it and end this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(NICENESS)
    plan = sys.stdin.buffer.readline()
    if not plan.endswith(b"\n"):
        os._exit(_STATUS_WITHOUT_BROKER)  # The broker has closed the pipe.
    _write_output(READY)
    threading.Thread(target=_exit_with_broker, daemon=True).start()
    try:
        output, status = clean(CleaningPlan.from_json(plan)).to_json(), 0
    except (OSError, ProtocolError, StorageError) as error:
        output, status = encode_error(error), 1
    _write_output(output)
    return status


def _write_output(output: bytes) -> None:
    with contextlib.suppress(BrokenPipeError):  # If the broker has exited, the pipe has no reader.
        sys.stdout.buffer.write(output)
        sys.stdout.buffer.flush()


def _exit_with_broker() -> None:
    os.read(_STDIN, 1)  # This blocks until the broker closes the pipe.
    os._exit(_STATUS_WITHOUT_BROKER)


if __name__ == "__main__":
    sys.exit(main())
