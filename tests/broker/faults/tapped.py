"""A broker without sockets behind the journal and the faults, and a connection that notes what happens to it."""

from collections.abc import Mapping
from typing import Any

from minibroker.cluster.routing.outcomes import Answer, Outcome, Waiting
from minibroker.server.faults.fault import Fault
from minibroker.server.faults.registry import FaultRegistry, faults_of
from minibroker.server.requests.request_path import compose
from minibroker_protocol.codec import Splices
from tests.broker.harness import Harness, bytes_of, frame_of, response_of


class Channel:
    """One connection; `events` holds what was done to it, bytes or the verb."""

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
    """A request on its way: its response once there is one, and what became of its connection."""

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
        """The client's next frame, None until it is whole."""
        for event in self.events:
            if isinstance(event, bytes):
                return response_of(self._request, self._version, event)
        return self._response

    def is_answered(self) -> bool:
        """Has it a whole response?"""
        return self.response is not None

    @property
    def verbs(self) -> list[str]:
        """The outcomes without the bytes."""
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
    """A broker whose requests go the way that connections send them."""

    def __init__(self, data_dir: str, config: Mapping[str, str] | None = None) -> None:
        super().__init__(data_dir, config)
        self.create()

    @property
    def faults(self) -> FaultRegistry:
        return faults_of(self.services)

    def is_tapped(self) -> bool:
        """Do requests pass by the journal or the faults?"""
        return self.services.recording is not None

    def fault(self, **fields: Any) -> Fault:
        """Add a fault of these fields."""
        return self.faults.add(Fault(**fields))

    def start_asking(self, request: Any, version: int, client_id: str | None = "test") -> Asking:
        """One request in a wake-up of its own."""
        asking = Asking(request, version)
        frame = memoryview(bytearray(frame_of(request, version, client_id=client_id)))
        take = compose(self.services, None, asking.channel)
        outcome = take(frame, self.session())
        self.core.writes.commit()
        asking.take(outcome)
        self.run_soon()
        return asking

    def ask(self, request: Any, version: int) -> Any:
        """One request that must be answered at once."""
        response = self.start_asking(request, version).response
        assert response is not None
        return response
