"""The stream that is tortured: in this process's Spark, or in a process of its own that can be killed."""

import os
import selectors
import signal
import subprocess
import sys
from abc import ABC, abstractmethod
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from minibroker_pipeline.connector import TopicSource, stream_to_parquet, stream_topics
from tests.clients.broker_process import environment
from tests.patience import PATIENCE_S
from tests.torture.ledger import TortureError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

OFFSETS_PER_TRIGGER: Final = 400
FAILED: Final = "failed "


@dataclass(frozen=True)
class StreamErrand:
    """The task of a stream, in the order of its program's arguments."""

    bootstrap: str
    topic: str
    folder: str
    checkpoint: str


class StreamRun(ABC):
    """A stream that can be begun and stopped again and again."""

    @abstractmethod
    def start(self) -> None:
        """Begin, where the checkpoint says. `TortureError`."""

    @abstractmethod
    def stop(self) -> None:
        """Stop it, whatever it does. `TortureError` if it has failed before."""

    @abstractmethod
    def check(self) -> None:
        """`TortureError` if it has failed."""

    @abstractmethod
    def close(self) -> None:
        """End all that belongs to it."""


class StreamInSession(StreamRun):
    """A stream of a Spark that others use, too."""

    def __init__(self, spark: "SparkSession", errand: StreamErrand) -> None:
        self._spark = spark
        self._errand = errand
        self._query: StreamingQuery | None = None

    def start(self) -> None:
        errand = self._errand
        source = TopicSource(
            bootstrap=errand.bootstrap, topics=errand.topic, max_offsets_per_trigger=OFFSETS_PER_TRIGGER
        )
        frame = stream_topics(self._spark, source)
        self._query = stream_to_parquet(frame, errand.folder, errand.checkpoint, every=0)

    def stop(self) -> None:
        if self._query is not None:
            self.check()
            self._query.stop()
            self._query = None

    def check(self) -> None:
        if self._query is not None and (failure := self._query.exception()) is not None:
            raise TortureError(f"the stream has failed: {failure}")

    def close(self) -> None:
        if self._query is not None:
            self._query.stop()


class StreamProcess(StreamRun):
    """A Spark of its own, all of whose processes can be killed. What it says goes to `log`."""

    def __init__(self, errand: StreamErrand, log: Path) -> None:
        self._errand = errand
        self._log = log
        self._child: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        if self._child is None:
            with self._log.open("ab") as log:
                self._child = subprocess.Popen(
                    [sys.executable, "-m", "tests.torture.stream_driver", *astuple(self._errand)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    env=environment(),
                    start_new_session=True,  # a group of its own, with the Java that it starts
                )
            self._read()
        self._ask("start")

    def stop(self) -> None:
        self._ask("stop")

    def check(self) -> None:
        self._ask("check")

    def kill(self) -> None:
        """SIGKILL for Python and Java at once; `start` starts others."""
        child, self._child = self._child, None
        if child is not None:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            for stream in (child.stdin, child.stdout):
                if stream is not None:
                    stream.close()

    def close(self) -> None:
        self.kill()

    def _ask(self, command: str) -> None:
        assert self._child is not None
        assert self._child.stdin is not None
        self._child.stdin.write(command.encode() + b"\n")
        self._child.stdin.flush()
        self._read()

    def _read(self) -> None:
        assert self._child is not None
        answer = _line_of(self._child.stdout)
        if answer is None:
            raise TortureError(f"Spark has said nothing for {PATIENCE_S:.0f} s; see {self._log}")
        if not answer or answer.startswith(FAILED):
            raise TortureError(
                f"the stream has failed: {answer.removeprefix(FAILED) or 'Spark ended'}; see {self._log}"
            )


def _line_of(stream: IO[bytes] | None) -> str | None:
    """The next line; empty at the end; None if it takes too long."""
    assert stream is not None
    with selectors.DefaultSelector() as selector:
        selector.register(stream, selectors.EVENT_READ)
        return stream.readline().decode().strip() if selector.select(PATIENCE_S) else None
