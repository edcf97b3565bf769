"""Has a request handled as far as its client may ask it.

What may not be done to some of the topics, groups or transactional ids that a request names is refused for those
alone; the rest is served as if nothing else had been named, and the errors stand beside it.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from minibroker.call import Parked, UnservedRequestError
from minibroker.faults.error_answers import error_answer, merged, merged_in_slices, part_answer, refusal
from minibroker.faults.refusals import MergedAnswer
from minibroker.produce_memo import has_many_batches
from minibroker.requests.pieces import is_large, join, pieces_of
from minibroker.requests.targets import Target, names_of, only
from minibroker.security.authorization.acls import CLUSTER_NAME, ResourceType
from minibroker.security.authorization.requirements import AUTHORIZATION_FAILED, REQUIREMENTS, Each
from minibroker.slices import Steps, drain, result_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from minibroker.call import Call
    from minibroker.dispatch import Endpoint
    from minibroker_protocol.error_codes import ErrorCode


_FIRST_COORDINATORS: Final = 4
"""The first version of FindCoordinator with several keys."""
_NAME_OF: Final[dict[ResourceType, Callable[[Target], str | None]]] = {
    ResourceType.TOPIC: attrgetter("topic"),
    ResourceType.GROUP: attrgetter("group"),
    ResourceType.TRANSACTIONAL_ID: attrgetter("transactional_id"),
}


def serve(endpoint: Endpoint, request: Any, call: Call) -> Any:
    """What the handler returns, or errors in its place. UnservedRequestError for produce requests without acks."""
    requirement = REQUIREMENTS[endpoint.route.key]
    api = endpoint.route.message
    for rule in requirement.whole:
        code = rule.check(request, call)
        if code:
            _check_acks(api, request, code)
            return refusal(api, request, call.api_version, code)
    each = requirement.each_of(request)
    if each is None:
        return endpoint.handle(request, call)
    if is_large(request):
        return _serve_large(endpoint, request, call, each)
    refused = drain(_refused(api, (request,), each, call))
    if not refused:
        return endpoint.handle(request, call)
    steps = _serve_rest(endpoint, (request,), call, each, refused)
    if api == "Produce" and not has_many_batches(request):  # its records lie in memory that is used again
        return drain(steps)
    return steps


def _refused(api: str, pieces: Iterable[Any], each: Each, call: Call) -> Steps[set[str]]:
    """The names in `pieces` of a request that the client may not use so; ids that nobody has are none."""
    refused: set[str] = set()
    for piece in pieces:
        for name in names_of(api, piece, call.core):
            if name is not None and not call.allows(each.operation, each.resource_type, name):
                refused.add(name)
        yield
    if refused and each.exempt is not None and call.allows(each.exempt, ResourceType.CLUSTER, CLUSTER_NAME):
        return set()
    return refused


def _serve_large(endpoint: Endpoint, request: Any, call: Call, each: Each) -> Steps[Any]:
    pieces = tuple(pieces_of(request))
    refused = yield from _refused(endpoint.route.message, pieces, each, call)
    if refused:
        return (yield from _serve_rest(endpoint, pieces, call, each, refused))
    return (yield from result_of(endpoint.handle(request, call)))


def _serve_rest(endpoint: Endpoint, pieces: tuple[Any, ...], call: Call, each: Each, refused: set[str]) -> Steps[Any]:
    """Have the handler serve the names that are not refused, and put errors for the others beside its response."""
    api, code, name_of = endpoint.route.message, AUTHORIZATION_FAILED[each.resource_type], _NAME_OF[each.resource_type]
    request = pieces[0]
    if not _has_list(api, call.api_version):
        return error_answer(api, request, call.api_version, code)
    allowed = errors = None
    for piece in pieces:
        hit = only(api, piece, lambda target: name_of(target) in refused, call.core)
        error = part_answer(api, hit, call.api_version, code)
        rest = only(api, piece, lambda target: name_of(target) not in refused, call.core)
        if allowed is None:
            allowed, errors = rest, error
        else:
            join(allowed, rest)
            join(errors, error)
        yield
    served = yield from result_of(endpoint.handle(allowed, call))
    _check_acks(api, request, code)
    if isinstance(served, Parked):
        return MergedAnswer(served, lambda response: merged(response, errors))
    # An error of the whole stands alone.
    if not getattr(served, "error_code", 0):
        yield from merged_in_slices(served, errors)
    return served


def _has_list(api: str, version: int) -> bool:
    """Whether a request names what it is about in a list, of which it can do without some."""
    return api != "FindCoordinator" or version >= _FIRST_COORDINATORS


def _check_acks(api: str, request: Any, code: ErrorCode) -> None:
    """An error that no answer can tell closes the connection."""
    if api == "Produce" and request.acks == 0:
        raise UnservedRequestError(f"produce with acks=0 failed: {code.name}")
