"""The stderr output of `minibroker serve`: log lines as text or JSON, and a banner on terminals.

All output uses `logging`. Each message is one line, even if it contains text from clients. Text lines begin with
"minibroker: ", or with the time of day for requests (`-v`). In JSON each line is an object with `time` (ISO 8601, UTC),
`level`, `logger` and `message`. `exception` is added for an exception, and `request` for a request, with the fields of
the journal (`Entry.to_json`).
"""

import contextlib
import datetime as dt
import json
import logging
import sys
import time
from collections import deque
from collections.abc import Generator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from minibroker.cluster.advice import LOGGER as ADVICE
from minibroker_protocol.lazy_imports import lazy

with lazy:
    from minibroker.server.inspection import request_lines

if TYPE_CHECKING:
    # Imported only for type checking, because most runs print no requests.
    from minibroker.server.inspection.journal import Entry

_OURS: Final = "minibroker"
_MAX_HELD_RECORDS: Final = 1000
_requests: Final = logging.getLogger("minibroker.requests")


class Console:
    """A handler for all loggers, used as a context manager.

    Args:
        log_format: text or json.
        verbose: whether to also print requests and the reasons for closed connections.
    """

    def __init__(self, log_format: str, *, verbose: bool) -> None:
        self._handler = _StderrHandler()
        self._handler.setFormatter(_Json() if log_format == "json" else _Text())
        self._has_banner = log_format == "text"
        self._level = logging.INFO if verbose else logging.WARNING
        self._before: list[tuple[logging.Logger, int]] = []

    def __enter__(self) -> Self:
        logging.getLogger().addHandler(self._handler)
        for name, level in ((_OURS, self._level), (ADVICE, logging.INFO)):
            logger = logging.getLogger(name)
            self._before.append((logger, logger.level))
            logger.setLevel(level)
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        logging.getLogger().removeHandler(self._handler)
        for logger, level in self._before:
            logger.setLevel(level)

    @contextlib.contextmanager
    def hold_output(self) -> Generator[None]:
        """Hold lines back while another program uses the terminal. The newest lines are written when the block ends."""
        self._handler.held_records = deque(maxlen=_MAX_HELD_RECORDS)
        try:
            yield
        finally:
            held_records, self._handler.held_records = self._handler.held_records, None
            for record in held_records:
                self._handler.emit(record)

    @property
    def has_reader(self) -> bool:
        """Whether a person reads stderr: it is a terminal with text output."""
        return self._has_banner and sys.stderr.isatty()

    def print_banner(self, rows: dict[str, str]) -> None:
        """Print a banner that shows how to connect, but only on a terminal."""
        if self.has_reader:
            width = max(map(len, rows))
            sys.stderr.write("".join(["\n", *(f"  {name:<{width}}  {value}\n" for name, value in rows.items()), "\n"]))


def log_request(entry: "Entry") -> None:
    """Log a completed request."""
    _requests.info("%s", request_lines.line_of(entry), extra={"entry": entry})


class _StderrHandler(logging.StreamHandler[Any]):
    """Writes to the current `sys.stderr`, or appends to `held_records` unless that is None."""

    held_records: deque[logging.LogRecord] | None = None

    def emit(self, record: logging.LogRecord) -> None:
        if self.held_records is not None:
            self.held_records.append(record)
            return
        self.stream = sys.stderr
        super().emit(record)


def escape(text: str, *, kept: str = "") -> str:
    """Escape the unprintable characters of a text as in a Python literal, except those in `kept`.

    Log lines contain names chosen by clients. A line break in a name would look like another line, and a terminal would
    execute an escape sequence.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in kept else repr(char)[1:-1] for char in text)


class _Text(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        text = escape(record.getMessage())
        if record.exc_info:
            text += "\n" + escape(self.formatException(record.exc_info), kept="\n")
        if hasattr(record, "entry"):
            return f"{time.strftime('%H:%M:%S', time.localtime(record.created))}.{int(record.msecs):03} {text}"
        return f"minibroker: {text}"


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": dt.datetime.fromtimestamp(record.created, dt.UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        entry: Entry | None = getattr(record, "entry", None)
        if entry is not None:
            line["request"] = entry.to_json()
        return json.dumps(line)
