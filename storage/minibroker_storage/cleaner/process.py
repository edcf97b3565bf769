"""The broker's side of a cleaning process: its command line, input and output. The broker itself starts the process."""

import json
import os
import sys

import minibroker_protocol
import minibroker_storage
from minibroker_storage.cleaner.plan import CleaningAbortedError, CleaningFailedError, CleaningPlan, CleaningResult
from minibroker_storage.errors import StorageError

READY = b"\n"
"""The worker's first output, sent once its modules are loaded."""
_WORKER = "minibroker_storage.cleaner.worker"
_MAX_REASON_LENGTH = 500


def worker_command() -> list[str]:
    """Return the command line of the worker.

    Start the worker with `worker_environment()`. Write the result of `encode_plan` to the worker's standard input, and
    do not close it: the worker exits as soon as its standard input is closed. Pass its output to `read_outcome`. If the
    log is deleted or truncated, or the broker stops, kill the worker, wait for it to end, and call
    `remove_cleaned_files`.
    """
    return [sys.executable, "-m", _WORKER]


def worker_environment() -> dict[str, str]:
    """Return this process's environment, with the locations of the worker's packages added to PYTHONPATH."""
    packages = (minibroker_protocol, minibroker_storage)
    roots = dict.fromkeys(os.path.dirname(package.__path__[0]) for package in packages)
    before = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": os.pathsep.join([*roots, before] if before else roots)}


def encode_plan(plan: CleaningPlan) -> bytes:
    """Encode a plan for the worker, as a line of JSON."""
    return plan.to_json() + b"\n"


def encode_error(error: Exception) -> bytes:
    """Encode an error as the worker's output."""
    errno, message = None, str(error)
    aborted = isinstance(error, CleaningAbortedError)
    if isinstance(error, OSError):
        errno, message = error.errno, error.strerror or message
    elif not aborted:
        message = f"{type(error).__name__}: {message}"
    return json.dumps({"error": message, "errno": errno, "aborted": aborted}).encode()


def read_outcome(output: bytes, status: int, errors: bytes = b"") -> CleaningResult:
    """Return the result from the output of a worker that has ended.

    Args:
        output: the worker's standard output.
        status: the worker's exit status.
        errors: the worker's standard error.

    Raises:
        CleaningAbortedError: the log's files changed in the meantime.
        OSError: the worker reported an error such as a full disk.
        StorageError: the worker could not start for lack of a resource. A later attempt may succeed.
        CleaningFailedError: the log cannot be read, or the worker died.
    """
    if not output.startswith(READY):
        reason = " ".join(errors.decode(errors="replace").split())
        raise StorageError(f"the cleaning process ended with {status} before it began: {reason[-_MAX_REASON_LENGTH:]}")
    try:
        if not status:
            return CleaningResult.from_json(output)
        failure = json.loads(output)
        message, errno, aborted = failure["error"], failure["errno"], failure["aborted"]
    except (ValueError, TypeError, KeyError):
        text = errors.decode(errors="replace").rstrip()
        raise CleaningFailedError(f"the cleaning process ended with {status} and said {output!r:.200} {text}") from None
    if aborted:
        raise CleaningAbortedError(message)
    if errno is not None:
        raise OSError(errno, message)
    raise CleaningFailedError(message)
