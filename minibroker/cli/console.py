"""The stderr output of `minibroker serve`: log lines as text or JSON, and a banner for people.

Everything goes through `logging`. A message is one line, whatever clients have put into it. Lines of text begin with
"minibroker: ", requests (`-v`) with the time of day. JSON is one object a line: `time` (ISO 8601, UTC), `level`,
`logger`, `message`, `exception` if there is one, and for a request `request`, as the journal has it
(`Entry.to_json`).
"""

import contextlib
import datetime as dt
import json
import logging
import sys
import threading
import time
from collections import deque
from collections.abc import Generator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from minibroker.cluster.advice import LOGGER as ADVICE
from minibroker.cluster.advice import about_advertised
from minibroker_protocol.lazy_imports import lazy

with lazy:
    from minibroker.server.inspection import request_lines

if TYPE_CHECKING:
    # Most runs print no requests.
    from minibroker.server.inspection.journal import Entry

FORMATS: Final = ("text", "json")
_OURS: Final = "minibroker"
_MOST_HELD: Final = 1000
_requests: Final = logging.getLogger("minibroker.requests")


class Console:
    """A handler for all loggers, for as long as a `with` block lasts.

    Args:
        log_format: one of `FORMATS`.
        verbose: also print requests, and why connections were closed.
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
    def held(self) -> Generator[None]:
        """Hold lines back while another program has the terminal; the newest are written when the block ends."""
        self._handler.held = deque(maxlen=_MOST_HELD)
        try:
            yield
        finally:
            held, self._handler.held = self._handler.held, None
            for record in held:
                self._handler.emit(record)

    @property
    def has_reader(self) -> bool:
        """Whether people read stderr at a terminal, not programs."""
        return self._has_banner and sys.stderr.isatty()

    def greet(self, rows: dict[str, str]) -> None:
        """Print at a terminal how to connect; programs that read stderr get nothing."""
        if self.has_reader:
            sys.stderr.write(banner(rows))

    def check_advertised(self, host: str) -> None:
        """Warn if a host, where clients are sent, cannot be found; on a thread, since resolvers take their time."""
        threading.Thread(target=_check_advertised, args=(host,), name="advertised", daemon=True).start()


def _check_advertised(host: str) -> None:
    problem = about_advertised(host)
    if problem is not None:
        logging.getLogger(_OURS).warning("%s", problem)


def banner(rows: dict[str, str]) -> str:
    """Lines of names and what stands behind them, in two columns, with an empty line on either side."""
    width = max(map(len, rows))
    return "".join(["\n", *(f"  {name:<{width}}  {value}\n" for name, value in rows.items()), "\n"])


def tell_request(entry: "Entry") -> None:
    """Log a request that is over."""
    _requests.info("%s", request_lines.line_of(entry), extra={"entry": entry})


class _StderrHandler(logging.StreamHandler[Any]):
    """Writes to what `sys.stderr` is at the moment; into `held` while that is there."""

    held: deque[logging.LogRecord] | None = None

    def emit(self, record: logging.LogRecord) -> None:
        if self.held is not None:
            self.held.append(record)
            return
        self.stream = sys.stderr
        super().emit(record)


def escaped(text: str, *, kept: str = "") -> str:
    """Text as a terminal may have it: what is not printable, but for the characters `kept`, as in a literal of Python.

    Clients choose names that appear in log lines. A line break in one would look like another line, and an escape
    sequence would be obeyed.
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() or each in kept else repr(each)[1:-1] for each in text)


class _Text(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        text = escaped(record.getMessage())
        if record.exc_info:
            text += "\n" + escaped(self.formatException(record.exc_info), kept="\n")
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
