"""The path of a connection's requests: interceptors before `dispatch`, and whether the short way is tried."""

from functools import partial

from minibroker.requests.dispatch import accept, accept_observed, accept_whole
from minibroker.routing.interceptors import Channel, Interceptor, Take
from minibroker.services import Services


def compose(services: Services, authentication: Interceptor | None, channel: Channel) -> Take:
    """`accept` with the observer, and all interceptors before it that there are now: authentication, meter."""
    observer = services.observer
    has_quotas = services.quotas is not None  # which change responses, as faults do
    take: Take = accept_whole if has_quotas else accept
    if observer is not None and observer.faults is not None:
        take = partial(accept_observed, observer, channel)
    elif observer is not None:
        from minibroker.requests.noting import Noting  # noqa: PLC0415 - most brokers keep no journal

        noting = Noting(observer, channel, services.core.clock)
        take = noting.take_whole if has_quotas else noting.take
    if services.quotas is not None:
        from minibroker.requests.meter import Meter  # noqa: PLC0415 - most brokers have none

        take = Meter(services.quotas).before(take, channel)
    return take if authentication is None else authentication.before(take, channel)
