"""Requests about quotas, and a client that is metered like a connection."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from minibroker.cluster.routing.outcomes import Answer, Waiting
from minibroker.security.principals import Principal
from minibroker.server.requests import meter
from minibroker.server.requests.dispatch import accept
from minibroker.server.requests.session import Session
from minibroker_protocol.messages.client_quotas import AlterClientQuotasRequest, AlterEntryData, EntityData, OpData
from tests.broker.harness import Harness, Pending, frame_of

Entity = Mapping[str, str | None]


def alter_request(
    *entries: tuple[Entity, Mapping[str, float | None]], validate_only: bool = False
) -> AlterClientQuotasRequest:
    return AlterClientQuotasRequest(
        entries=[
            AlterEntryData(
                entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()],
                ops=[OpData(key=key, value=value or 0, remove=value is None) for key, value in values.items()],
            )
            for entity, values in entries
        ],
        validate_only=validate_only,
    )


def set_quota(harness: Harness, entity: Entity, **values: float | None) -> None:
    (result,) = harness.ask(alter_request((entity, values)), 1).entries
    assert result.error_code == 0, result.error_message


class Metered:
    """A client with its own connection."""

    def __init__(self, harness: Harness, client_id: str = "c", user: str = "ANONYMOUS") -> None:
        self.harness = harness
        self.client_id = client_id
        self.session: Session = harness.session(principal=Principal("User", user))

    def ask(self, request: Any, version: int) -> tuple[Any, int]:
        """Return the response, and how long the connection is muted, in milliseconds."""
        services = self.harness.services
        frame = memoryview(bytearray(frame_of(request, version, client_id=self.client_id)))
        self.session.muted_ms = 0
        take = accept if services.quotas is None else partial(meter.accept, services.quotas, accept)
        outcome = take(frame, self.session)
        services.core.writes.commit()
        if isinstance(outcome, Waiting):
            pending = Pending(request, version, outcome)
            self.harness.run_soon()
            assert pending.is_answered
            return pending.response, self.session.muted_ms
        assert outcome is None or isinstance(outcome, Answer)
        return None if outcome is None else outcome.response, self.session.muted_ms
