"""The short way of requests that come again byte for byte: heartbeats, ApiVersions, Metadata and their like.

The handler serves the same request object, rights are checked before, and the response is compared with the one
before. An equal one leaves as the bytes of that one. A handler that declares `REPEAT = SameRequest` neither changes nor
keeps its request, and changes nothing of a response that it has returned.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

from minibroker.requests.dispatch import outcome_from, serve
from minibroker.requests.repeats import BODY, UNKNOWN, Template
from minibroker.routing.outcomes import Answer, AnyOutcome

if TYPE_CHECKING:
    from minibroker.requests.call import Call
    from minibroker.requests.endpoints import Endpoint

_MOST_REQUESTS: Final = 8
MOST_BYTES: Final = 1024
"""A longer request is not remembered."""


class KnownRequest:
    """A request, and its last response, None where that is not to be kept.

    `template` is there once the response has come twice, too. For `is_plain` see `routing.outcomes.Noted`.
    """

    __slots__ = ("is_plain", "request", "response", "template")

    def __init__(self, request: Any, response: Any) -> None:
        self.request = request
        self.response = response
        self.template: Template | None = None
        self.is_plain: bool | None = None


class Repeated:
    """An answer whose bytes are those of the answer before: see `routing.outcomes.Filled`."""

    __slots__ = (
        "_response",
        "_template",
        "correlation_id",
        "entry",
        "head",
        "known",
        "made",
        "number",
        "size",
        "way",
    )

    head: bytes
    size: int
    number: int
    made: Any

    def __init__(
        self, way: SameRequest, known: KnownRequest, response: Any, template: Template, correlation_id: int
    ) -> None:
        self.entry: Any = None
        self.way = way
        self.known = known
        self._response = response
        self._template = template
        self.correlation_id = correlation_id

    def filled(self) -> bytes:
        """See `Filled`."""
        template = self._template
        return template.pack(template.size, self.correlation_id, template.head, template.tail)

    def unfilled(self) -> Answer:
        """See `Filled`."""
        way = self.way
        return Answer(self._response, way.call.api_version, self.correlation_id, way.flexible_header, self.entry)

    def sent(self) -> tuple[bytes, int]:
        """See `routing.outcomes.Noted`."""
        frame = self.filled()
        return frame, len(frame)

    def note(self, turn: Any, frame: memoryview) -> None:
        """See `Filled`."""
        self.entry = turn
        self.made = None
        self.head = bytes(frame)
        self.size = len(frame)


class SameRequest:
    """The repeated requests of one API in one version on one connection: see `repeats.ShortWay`."""

    __slots__ = ("_known", "call", "endpoint", "flexible_header")

    def __init__(self, endpoint: Endpoint, call: Call) -> None:
        self.endpoint = endpoint
        self.call = call
        self.flexible_header = call.api_version in endpoint.flexible_answers
        self._known: dict[bytes, KnownRequest] = {}

    def take(self, frame: memoryview, correlation_id: int) -> AnyOutcome | Literal[False]:
        """See `repeats.ShortWay`."""
        # A copy of some hundred bytes as a dict's key is cheaper than to decode them, and cannot change under it.
        known = self._known.get(bytes(frame[BODY:])) if len(frame) <= MOST_BYTES else None
        if known is None:
            return UNKNOWN
        return self._outcome(known, correlation_id)

    def _outcome(self, known: KnownRequest, correlation_id: int) -> AnyOutcome:
        """Have a known request served."""
        endpoint, call = self.endpoint, self.call
        response = serve(endpoint, known.request, call)
        version, flexible_header = call.api_version, self.flexible_header
        # The handler waits, or works in slices, or has nothing to say: the usual path decides.
        if type(response) is not endpoint.response:
            outcome = outcome_from(response, endpoint, version, correlation_id, call.services)
            if not isinstance(outcome, Answer):
                return outcome
            response = outcome.response
        # `keeps_response` is off for Fetch, whose responses hardly ever repeat.
        if known.response is None:
            return Answer(response, version, correlation_id, flexible_header)
        if response != known.response:
            known.response, known.template = response, None
        # Only when the same response has come twice: a template costs more than the encoding that it saves once.
        elif known.template is None:
            known.template = Template.of(response, version, flexible_header=flexible_header)
        template = known.template
        if template is None:
            return Answer(response, version, correlation_id, flexible_header)
        return Repeated(self, known, response, template, correlation_id)

    def learn(self, frame: memoryview, request: Any, response: Any) -> None:
        """See `repeats.ShortWay`."""
        if response is None or len(frame) > MOST_BYTES:
            return
        # A client whose requests never repeat fills it again and again. To empty it costs less than to order it.
        if len(self._known) >= _MOST_REQUESTS:
            self._known.clear()
        self._known[bytes(frame[BODY:])] = KnownRequest(request, response)

    def remembered(self, frame: memoryview) -> tuple[Any, memoryview | None]:
        """See `repeats.ShortWay`."""
        return self.known(frame).request, None

    def known(self, frame: memoryview) -> KnownRequest:
        """The remembered request of a frame that was taken."""
        return self._known[bytes(frame[BODY:])]
