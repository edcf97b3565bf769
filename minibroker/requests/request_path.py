"""The interceptors of a connection, composed in front of `dispatch.accept`."""

from functools import partial

from minibroker.requests.dispatch import accept, accept_observed, accept_whole
from minibroker.routing.interceptors import Interceptor, Line, Take
from minibroker.services import Services


def compose(services: Services, authentication: Interceptor | None, line: Line) -> Take:
    """`accept` with the observer, and all interceptors before it that there are now: authentication, meter."""
    observer = services.observer
    take: Take = accept
    if observer is not None:
        take = partial(accept_observed, observer, line, False)
        if observer.faults is None and services.quotas is None:  # which change responses
            from minibroker.requests.noting import Noting  # noqa: PLC0415 - most brokers keep no journal

            take = Noting(observer, line, services.core.clock).take
    elif services.quotas is not None:
        take = accept_whole
    if services.quotas is not None:
        from minibroker.requests.meter import Meter  # noqa: PLC0415 - most brokers have none

        take = Meter(services.quotas).before(take, line)
    return take if authentication is None else authentication.before(take, line)
