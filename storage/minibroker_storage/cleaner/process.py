"""The broker's side of a cleaning process: its command line and its output; starting and waiting are the broker's."""

import json
import os
import sys
from struct import Struct

import minibroker_protocol
import minibroker_storage
from minibroker_storage.cleaner.plan import CleaningAbortedError, CleaningFailedError, CleaningPlan, CleaningResult
from minibroker_storage.errors import StorageError

BEGUN = b"\n"
"""The worker says this first: its modules are there."""
_WORKER = "minibroker_storage.cleaner.worker"
_SIZE = Struct(">i")
_LONGEST_REASON = 500


def worker_command() -> list[str]:
    """The command line. Its standard input takes `encode_plan` and then stays open, its output is for `read_outcome`.

    Give it `worker_environment()`. It ends at once when its standard input is closed. When the log is deleted or
    truncated, or the broker stops, kill the process and wait for its end, then call `remove_cleaned_files`.
    """
    return [sys.executable, "-m", _WORKER]


def worker_environment() -> dict[str, str]:
    """This process's environment, and the path to the packages wherever they were imported from."""
    packages = (minibroker_protocol, minibroker_storage)
    roots = dict.fromkeys(os.path.dirname(package.__path__[0]) for package in packages)
    before = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": os.pathsep.join([*roots, before] if before else roots)}


def encode_plan(plan: CleaningPlan) -> bytes:
    """A plan as the worker reads it: int32 length, JSON."""
    data = plan.to_json()
    return _SIZE.pack(len(data)) + data


def plan_size(head: bytes | None = None) -> int:
    """The bytes that the worker has to read first, and, with these as `head`, those that follow."""
    size: int = _SIZE.size if head is None else _SIZE.unpack(head)[0]
    return size


def encode_error(error: Exception) -> bytes:
    """An error as the worker reports it."""
    number, message = None, str(error)
    aborted = isinstance(error, CleaningAbortedError)
    if isinstance(error, OSError):
        number, message = error.errno, error.strerror or message
    elif not aborted:
        message = f"{type(error).__name__}: {message}"
    return json.dumps({"error": message, "errno": number, "aborted": aborted}).encode()


def read_outcome(output: bytes, status: int, errors: bytes = b"") -> CleaningResult:
    """The result in a worker's output, once it has ended with `status`; `errors` is its standard error.

    `CleaningAbortedError` when the log's files have changed meanwhile, `OSError` as the worker had it (a full disk),
    `StorageError` when it did not begin, since a new process lacks something: these may go away. `CleaningFailedError`
    for a log that cannot be read, and when the worker died.
    """
    if not output.startswith(BEGUN):
        reason = " ".join(errors.decode(errors="replace").split())
        raise StorageError(f"the cleaning process ended with {status} before it began: {reason[-_LONGEST_REASON:]}")
    try:
        if not status:
            return CleaningResult.from_json(output)
        failure = json.loads(output)
        message, number, aborted = failure["error"], failure["errno"], failure["aborted"]
    except (ValueError, TypeError, KeyError):
        text = errors.decode(errors="replace").rstrip()
        raise CleaningFailedError(f"the cleaning process ended with {status} and said {output!r:.200} {text}") from None
    if aborted:
        raise CleaningAbortedError(message)
    if number is not None:
        raise OSError(number, message)
    raise CleaningFailedError(message)
