"""The path of a connection's requests: the interceptors before `dispatch`."""

from functools import partial
from typing import TYPE_CHECKING

from minibroker.cluster.routing.outcomes import Channel, FrameHandler
from minibroker.server.requests.dispatch import accept, accept_plain, accept_recorded
from minibroker.server.services import Services
from minibroker_protocol.lazy_imports import lazy

with lazy:
    from minibroker.server.requests import meter

if TYPE_CHECKING:
    from minibroker.server.requests.authentication import Authentication


def compose(services: Services, authentication: "Authentication | None", channel: Channel) -> FrameHandler:
    """Return `accept` wrapped in the interceptors that are currently needed: recording, authentication and meter."""
    recording = services.recording
    take: FrameHandler
    if recording is not None:
        take = partial(accept_recorded, recording, services.faults or None, channel)
    else:  # Authorization and quotas inspect decoded messages, which the fast path of `accept_plain` skips.
        take = accept if services.checks_messages else accept_plain
    if services.quotas is not None:
        take = partial(meter.accept, services.quotas, take)
    if authentication is None:
        return take
    take = partial(authentication.accept, take)
    return take if recording is None else partial(recording.accept_login, take, channel)
