"""`python -m minibroker_storage.cleaner.worker`: a plan on standard input, the outcome on standard output, as JSON.

A cleaning is pure Python for each record. In the broker's process it would hold the interpreter for long, so it has a
process of its own, which gives way to everybody else, imports little, and ends when the broker ends.
"""

import os
import signal
import sys
from typing import Final

from minibroker_protocol.errors import DecodeError
from minibroker_storage.cleaner.clean import clean
from minibroker_storage.cleaner.plan import CleaningAbortedError, CleaningPlan
from minibroker_storage.cleaner.process import encode_error
from minibroker_storage.errors import StorageError

NICENESS: Final = 19
"""The lowest priority there is."""


def main() -> int:
    """Clean as the plan says. The status is 0 with a result, 1 with an error, both told on standard output."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C at a terminal is for the broker, which ends this process
    os.nice(NICENESS)
    broker = os.getppid()

    def check_done() -> None:
        if os.getppid() != broker:
            raise CleaningAbortedError("the broker is gone")

    try:
        output = clean(CleaningPlan.from_json(sys.stdin.buffer.read()), check_done=check_done).to_json()
    except (OSError, DecodeError, StorageError) as error:
        output = encode_error(error)
        status = 1
    else:
        status = 0
    sys.stdout.buffer.write(output)
    sys.stdout.buffer.flush()
    return status


if __name__ == "__main__":
    sys.exit(main())
