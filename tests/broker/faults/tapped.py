"""A broker without sockets, with a journal and faults, and a connection that records its events."""

from collections.abc import Mapping
from typing import Any

from minibroker.cluster.routing.outcomes import Answer, Outcome, Waiting
from minibroker.server.faults.fault import Fault
from minibroker.server.faults.registry import FaultRegistry, faults_of
from minibroker.server.requests.dispatch import compose
from minibroker_protocol.codec import Splices
from tests.broker.harness import Harness, bytes_of, frame_of, response_of


class Channel:
    """A connection. `events` has the bytes that were sent and the names of the methods that were called."""

    def __init__(self) -> None:
        self.events: list[bytes | str] = []

    @property
    def ends(self) -> tuple[Any, Any]:
        return ("127.0.0.1", 9092), ("127.0.0.1", 51234)

    def send(self, data: bytearray, splices: Splices) -> None:
        assert not splices
        self.events.append(bytes(data))

    def release(self) -> None:
        self.events.append("release")

    def end(self) -> None:
        self.events.append("end")

    def abort(self) -> None:
        self.events.append("abort")

    def fail(self, error: Exception) -> None:
        self.events.append(f"fail: {error}")

    def swallow(self) -> None:
        self.events.append("swallow")


class Asking:
    """A pending request: its response, if it has arrived, and the events of its connection."""

    def __init__(self, request: Any, version: int) -> None:
        self.channel = Channel()
        self.waiting: Waiting | None = None
        self._request = request
        self._version = version
        self._response: Any = None

    @property
    def events(self) -> list[bytes | str]:
        return self.channel.events

    @property
    def response(self) -> Any:
        """The first response, or None."""
        for event in self.events:
            if isinstance(event, bytes):
                return response_of(self._request, self._version, event)
        return self._response

    def is_answered(self) -> bool:
        """Return whether the response is complete."""
        return self.response is not None

    @property
    def verbs(self) -> list[str]:
        """The events without the sent bytes."""
        return [event for event in self.events if isinstance(event, str)]

    def take(self, outcome: Outcome) -> None:
        if isinstance(outcome, Waiting):
            self.waiting = outcome
            outcome.delayed.deliver = lambda response: self._read(outcome.answer._replace(response=response))
        elif outcome is not None:
            assert isinstance(outcome, Answer)
            self._read(outcome)

    def _read(self, answer: Answer) -> None:
        self._response = response_of(self._request, self._version, bytes_of(answer))


class Tapped(Harness):
    """Brokers whose requests take the same path as those of real connections. A single one has a topic "t"."""

    def __init__(self, data_dir: str, config: Mapping[str, str] | None = None, *, brokers: int = 1) -> None:
        super().__init__(data_dir, config, brokers=brokers)
        if brokers == 1:
            self.create()

    @property
    def faults(self) -> FaultRegistry:
        return faults_of(self.services)

    def is_tapped(self) -> bool:
        """Return whether requests pass through the recording."""
        return self.services.recording is not None

    def fault(self, **fields: Any) -> Fault:
        """Add a fault with these fields."""
        return self.faults.add(Fault(**fields))

    def start_asking(self, request: Any, version: int, client_id: str | None = "test") -> Asking:
        """Send a request in a separate wake-up."""
        asking = Asking(request, version)
        frame = memoryview(bytearray(frame_of(request, version, client_id=client_id)))
        take = compose(self.services, None, asking.channel)
        outcome = take(frame, self.session())
        self.core.writes.commit()
        asking.take(outcome)
        self.run_soon()
        return asking

    def ask(self, request: Any, version: int) -> Any:
        """Return the response to a request that must be answered immediately."""
        response = self.start_asking(request, version).response
        assert response is not None
        return response
