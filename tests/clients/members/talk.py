"""The talk between a member that is written in Python and its test: events on stdout, commands on stdin."""

import json
import queue
import sys
import threading
from collections.abc import Iterable, Iterator
from typing import Any


class Talk:
    """The options that the test gave, and what is said in both directions.

    Events may come from any thread. Commands are read on a thread of its own, so that the member can go on polling.
    """

    def __init__(self) -> None:
        self.options: dict[str, Any] = json.loads(sys.argv[-1])
        self._lock = threading.Lock()
        self._commands: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        threading.Thread(target=self._listen, daemon=True).start()

    def say(self, event: str, **content: Any) -> None:
        """Print an event."""
        line = json.dumps({"event": event, **content}) + "\n"
        with self._lock:
            sys.stdout.write(line)
            sys.stdout.flush()

    def partitions(self, event: str, partitions: Iterable[Any]) -> None:
        """Print an event about partitions, which have a `topic` and a `partition`."""
        self.say(event, partitions=sorted([each.topic, each.partition] for each in partitions))

    def commands(self) -> Iterator[dict[str, Any]]:
        """The test's commands since the last time."""
        while not self._commands.empty():
            yield self._commands.get()

    def _listen(self) -> None:
        for line in sys.stdin:
            self._commands.put(json.loads(line))
        self._commands.put({"do": "close"})
