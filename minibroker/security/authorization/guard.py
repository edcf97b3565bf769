"""Has a request handled as far as its client may ask it.

What may not be done to some of the topics, groups or transactional ids that a request names is refused for those
alone; the rest is served as if nothing else had been named, and the errors stand beside it.
"""

from __future__ import annotations

from operator import attrgetter
from types import GeneratorType
from typing import TYPE_CHECKING, Any, Final

from minibroker.call import Parked, UnservedRequestError
from minibroker.faults.error_answers import error_answer, merged, part_answer
from minibroker.faults.refusals import MergedAnswer
from minibroker.inspection.targets import Target, names_of, only
from minibroker.security.authorization.acls import CLUSTER_NAME, ResourceType
from minibroker.security.authorization.requirements import AUTHORIZATION_FAILED, REQUIREMENTS, Each

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from minibroker.call import Call
    from minibroker.dispatch import Endpoint
    from minibroker.slices import Steps
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
            return error_answer(api, request, call.api_version, code)
    each = requirement.each_of(request)
    if each is not None:
        names = names_of(api, request, call.state)
        refused = _refused(names, each, call)
        if refused:
            return _serve_rest(endpoint, request, call, each.resource_type, refused)
    return endpoint.handle(request, call)


def _refused(names: Iterable[str | None], each: Each, call: Call) -> set[str]:
    """The names that the client may not use so; None stands for ids that nobody has."""
    refused = {name for name in names if name is not None and not call.allows(each.operation, each.resource_type, name)}
    if refused and each.exempt is not None and call.allows(each.exempt, ResourceType.CLUSTER, CLUSTER_NAME):
        return set()
    return refused


def _serve_rest(endpoint: Endpoint, request: Any, call: Call, resource_type: ResourceType, refused: set[str]) -> Any:
    api, code, name_of = endpoint.route.message, AUTHORIZATION_FAILED[resource_type], _NAME_OF[resource_type]
    if not _has_list(api, call.api_version):
        return error_answer(api, request, call.api_version, code)
    hit = only(api, request, lambda each: name_of(each) in refused, call.state)
    errors = part_answer(api, hit, call.api_version, code)
    served = endpoint.handle(only(api, request, lambda each: name_of(each) not in refused, call.state), call)
    _check_acks(api, request, code)
    if isinstance(served, GeneratorType):
        return _with_errors_in_slices(served, errors)
    return _with_errors(served, errors)


def _with_errors_in_slices(steps: Steps[Any], errors: Any) -> Steps[Any]:
    served = yield from steps
    return _with_errors(served, errors)


def _with_errors(served: Any, errors: Any) -> Any:
    if isinstance(served, Parked):
        return MergedAnswer(served, lambda response: merged(response, errors))
    # An error of the whole stands alone.
    return served if getattr(served, "error_code", 0) else merged(served, errors)


def _has_list(api: str, version: int) -> bool:
    """Whether a request names what it is about in a list, of which it can do without some."""
    return api != "FindCoordinator" or version >= _FIRST_COORDINATORS


def _check_acks(api: str, request: Any, code: ErrorCode) -> None:
    """An error that no answer can tell closes the connection."""
    if api == "Produce" and request.acks == 0:
        raise UnservedRequestError(f"produce with acks=0 failed: {code.name}")
