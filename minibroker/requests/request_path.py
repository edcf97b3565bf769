"""The path of a connection's requests: the interceptors before `dispatch`."""

from functools import partial
from typing import TYPE_CHECKING

from minibroker.requests.dispatch import accept, accept_observed, accept_plain
from minibroker.routing.outcomes import Channel, Take
from minibroker.services import Services
from minibroker_protocol.lazy_imports import lazy

with lazy:
    from minibroker.requests import meter

if TYPE_CHECKING:
    from minibroker.requests.authentication import Authentication


def compose(services: Services, authentication: "Authentication | None", channel: Channel) -> Take:
    """`accept` with the observer, and all interceptors before it that there are now: authentication, meter."""
    observer = services.observer
    take: Take
    if observer is not None:
        take = partial(accept_observed, observer, channel)
    else:  # rights and quotas are about whole messages
        take = accept if services.checks_messages else accept_plain
    if services.quotas is not None:
        take = meter.Meter(services.quotas).before(take)
    return take if authentication is None else authentication.before(take)
