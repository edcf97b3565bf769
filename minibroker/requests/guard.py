"""The authorization of requests (Kafka's `AuthHelper`): serves the part that a client may ask for, refuses the rest.

What may not be done to some of the topics, groups or transactional ids that a request names is refused for those
alone; the rest is served as if nothing else had been named, and the errors stand beside it.
"""

from __future__ import annotations

from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from minibroker.requests.declarations import Target
from minibroker.requests.merging import MergedAnswer, merged, merged_in_slices
from minibroker.requests.pieces import is_large, join, pieces_of
from minibroker.requests.produce.many_batches import has_many_batches
from minibroker.requests.refusals import error_answer, part_answer, refused
from minibroker.requests.requirements import AUTHORIZATION_FAILED, Each
from minibroker.requests.targets import has_list, names_of, only
from minibroker.routing.delayed import DelayedResponse
from minibroker.routing.routes import UnservedRequestError
from minibroker.security.authorization.acls import CLUSTER_NAME, ResourceType
from minibroker.support.slices import Steps, drain, result_of
from minibroker_protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from minibroker.requests.call import Call
    from minibroker.requests.endpoints import Endpoint
    from minibroker_protocol.error_codes import ErrorCode


_PRODUCE: Final = ApiKey.PRODUCE
_NAME_OF: Final[dict[ResourceType, Callable[[Target], str | None]]] = {
    ResourceType.TOPIC: attrgetter("topic"),
    ResourceType.GROUP: attrgetter("group"),
    ResourceType.TRANSACTIONAL_ID: attrgetter("transactional_id"),
}


def serve(endpoint: Endpoint, request: Any, call: Call) -> Any:
    """The handler's response, or an error in its place. UnservedRequestError for produce requests without acks."""
    for rule in endpoint.needs.whole:
        code = rule.check(request, call)
        if code:
            # Kafka closes the connection, too: a producer that wants no response can learn of an error in no other way.
            _check_acks(endpoint, request, code)
            return refused(request, partial(error_answer, endpoint, version=call.api_version, code=code))
    each = endpoint.needs.each_of(request)
    if each is None:
        return endpoint.handle(request, call)
    # A right for each of 100,000 names takes longer than a slice.
    if is_large(request):
        return _serve_large(endpoint, request, call, each)
    denied = drain(_denied(endpoint, (request,), each, call))
    if not denied:
        return endpoint.handle(request, call)
    steps = _serve_rest(endpoint, (request,), call, each, denied)
    if endpoint.route.key is _PRODUCE and not has_many_batches(request):  # its records lie in memory that is used again
        return drain(steps)
    return steps


def _denied(endpoint: Endpoint, pieces: Iterable[Any], each: Each, call: Call) -> Steps[set[str]]:
    """The names in `pieces` of a request that the client may not use so; unknown ids are none."""
    denied: set[str] = set()
    for piece in pieces:
        for name in names_of(endpoint.names, piece, call.core, call.api_version):
            if name is not None and not call.allows(each.operation, each.resource_type, name):
                denied.add(name)
        yield
    # Asked last, and only where it matters: most clients have the right for each name, and a refusal is logged.
    if denied and each.exempt is not None and call.allows(each.exempt, ResourceType.CLUSTER, CLUSTER_NAME):
        return set()
    return denied


def _serve_large(endpoint: Endpoint, request: Any, call: Call, each: Each) -> Steps[Any]:
    pieces = tuple(pieces_of(request))
    denied = yield from _denied(endpoint, pieces, each, call)
    if denied:
        return (yield from _serve_rest(endpoint, pieces, call, each, denied))
    return (yield from result_of(endpoint.handle(request, call)))


def _serve_rest(endpoint: Endpoint, pieces: tuple[Any, ...], call: Call, each: Each, denied: set[str]) -> Steps[Any]:
    """Have the handler serve the names that are not refused, and put errors for the others beside its response."""
    names, code, name_of = endpoint.names, AUTHORIZATION_FAILED[each.resource_type], _NAME_OF[each.resource_type]
    request = pieces[0]
    if not has_list(endpoint, call.api_version):
        return error_answer(endpoint, request, call.api_version, code)
    # The handler gets a request without the denied names: no handler can forget to look at rights.
    allowed = errors = None
    for piece in pieces:
        hit = only(names, piece, lambda target: name_of(target) in denied, call.core)
        error = part_answer(endpoint, hit, call.api_version, code)
        rest = only(names, piece, lambda target: name_of(target) not in denied, call.core)
        if allowed is None:
            allowed, errors = rest, error
        else:
            join(allowed, rest)
            join(errors, error)
        yield
    served = yield from result_of(endpoint.handle(allowed, call))
    _check_acks(endpoint, request, code)
    if isinstance(served, DelayedResponse):
        return MergedAnswer(served, lambda response: merged(response, errors))
    # An error of the whole stands alone.
    if not getattr(served, "error_code", 0):
        yield from merged_in_slices(served, errors)
    return served


def _check_acks(endpoint: Endpoint, request: Any, code: ErrorCode) -> None:
    """An error that no response can carry closes the connection."""
    if endpoint.route.key is _PRODUCE and request.acks == 0:
        raise UnservedRequestError(f"produce with acks=0 failed: {code.name}")
