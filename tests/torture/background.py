"""Writers on threads of their own, which go on through all kills."""

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable

from confluent_kafka import KafkaException

from tests.patience import PATIENCE_S
from tests.torture.ledger import TortureError


class BackgroundProducer(ABC):
    """Writes from `go_on` to `rest`, again and again, until it is closed or fails."""

    def __init__(self) -> None:
        self.is_writing = threading.Event()
        self.is_closed = False
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    @abstractmethod
    def step(self) -> None:
        """Write something if it is `wanted`, and wait a little. KafkaException, `TortureError`."""

    @abstractmethod
    def is_idle(self) -> bool:
        """Whether all that was written is acknowledged or aborted."""

    @abstractmethod
    def standing(self) -> str:
        """The message for a wait that has not ended."""

    def start(self) -> None:
        """Start the thread; it waits for `go_on`."""
        self._thread.start()

    def go_on(self) -> None:
        """Write."""
        self.is_writing.set()

    def rest(self) -> None:
        """Write no more, and wait until all is acknowledged or aborted. `TortureError`."""
        self.is_writing.clear()
        await_that(
            lambda: self._failure is not None or self.is_idle(),
            lambda: f"the broker does not acknowledge: {self.standing()}",
        )
        self.check()

    def check(self) -> None:
        """Raise what went wrong. `TortureError`."""
        if self._failure is not None:
            raise TortureError(f"the producer failed: {self._failure}") from self._failure

    def close(self) -> None:
        """End the thread."""
        self.is_closed = True
        self._thread.join(PATIENCE_S)

    def _run(self) -> None:
        try:
            while not self.is_closed:
                self.step()
        except (KafkaException, TortureError) as failure:
            self._failure = failure


def await_that(condition: Callable[[], bool], description: Callable[[], str]) -> None:
    """Wait until it is so. `TortureError` if it takes too long."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > deadline:
            raise TortureError(f"after {PATIENCE_S:.0f} s: {description()}")
        time.sleep(0.005)
