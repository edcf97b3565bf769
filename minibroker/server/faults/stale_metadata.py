"""Stale metadata: the state of the cluster before its last changes."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from minibroker.cluster.routing.slices import drain, steps_of
from minibroker.security.authorization.acls import Operation, ResourceType
from minibroker.security.principals import BROKER
from minibroker.server.inspection.message_json import detach
from minibroker.server.requests.call import Call
from minibroker.server.requests.endpoints import endpoint
from minibroker.server.requests.session import Session
from minibroker_protocol.api_keys import ApiKey
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic
from minibroker_protocol.primitives import ZERO_UUID

if TYPE_CHECKING:
    from minibroker.server.services import Services

_VERSION = 12
_NOWHERE = ("", 0)
"""Stands for an unknown address, which a response replaces with the client's own."""


class MetadataHistory:
    """The past states of the cluster's metadata since this object was created.

    Attributes:
        depth: The number of changes to remember.
    """

    def __init__(self, services: Services, depth: int) -> None:
        self._services = services
        self.depth = depth
        self._states: deque[MetadataResponse] = deque(maxlen=depth + 1)
        self.update()

    def update(self) -> None:
        """Record the current state of the metadata if it has changed."""
        session = Session(self._services, advertised=_NOWHERE, client_host="", principal=BROKER)
        call = Call(self._services.core, self._services, _VERSION, None, session)
        current: MetadataResponse = detach(_request_metadata(None, call))
        if not self._states or current != self._states[-1]:
            self._states.append(current)

    def response(self, request: Any, changes: int, call: Call) -> MetadataResponse:
        """Return the response as of `changes` changes of the metadata ago, or as of the oldest known state."""
        self.update()
        past: MetadataResponse = detach(self._states[max(0, len(self._states) - 1 - changes)])
        current_brokers = {broker.node_id: broker for broker in _request_metadata([], call).brokers}
        past.brokers = [
            current_brokers.get(broker.node_id) or replace(broker, host=broker.host or call.session.advertised[0])
            for broker in past.brokers
        ]
        past.topics = [topic for topic in past.topics if _may_describe(topic.name, call)]
        requested = request.topics
        if requested is not None and (requested or call.api_version > 0):
            past.topics = [_find_topic(requested_topic, past.topics, call) for requested_topic in requested]
        return past


def _request_metadata(topics: list[Any] | None, call: Call) -> Any:
    request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
    # The call gets a later version, because version 0 would interpret an empty list as all topics.
    newest = Call(call.core, call.services, _VERSION, call.client_id, call.session)
    handled = endpoint(ApiKey.METADATA).handle(request, newest)
    response: MetadataResponse = drain(steps_of(handled))
    return response


def _may_describe(name: str | None, call: Call) -> bool:
    return call.allows(Operation.DESCRIBE, ResourceType.TOPIC, name or "")


def _find_topic(requested: Any, topics: list[MetadataResponseTopic], call: Call) -> MetadataResponseTopic:
    by_id = requested.topic_id != ZERO_UUID
    for topic in topics:
        if topic.topic_id == requested.topic_id if by_id else topic.name == requested.name:
            return topic
    code = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if not by_id and not _may_describe(requested.name, call):
        code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return MetadataResponseTopic(
        error_code=code, name=None if by_id else requested.name, topic_id=requested.topic_id, partitions=[]
    )
