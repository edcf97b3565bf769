"""The authorization of requests (Kafka's `AuthHelper`). It serves the permitted part of a request and refuses the rest.

If a client lacks a right to some of the topics, groups or transactional ids in a request, only these get an error. The
rest is served as if the request named nothing else, and the errors are merged into the response.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from minibroker.cluster.routing.outcomes import ChangedResponse, DelayedResponse
from minibroker.cluster.routing.slices import then
from minibroker.security.authorization.acls import CLUSTER_NAME, ResourceType
from minibroker.server.requests.declarations import Target
from minibroker.server.requests.refusals import check_acks, error_answer, merge_response, partial_error_answer
from minibroker.server.requests.requirements import AUTHORIZATION_FAILED, ElementRule
from minibroker.server.requests.targets import has_list, names_of, select_targets

if TYPE_CHECKING:
    from collections.abc import Callable

    from minibroker.server.requests.call import Call
    from minibroker_protocol.error_codes import ErrorCode


_NAME_OF: Final[dict[ResourceType, Callable[[Target], str | None]]] = {
    ResourceType.TOPIC: attrgetter("topic"),
    ResourceType.GROUP: attrgetter("group"),
    ResourceType.TRANSACTIONAL_ID: attrgetter("transactional_id"),
}


def handle(request: Any, call: Call) -> Any:
    """Return the handler's result, or an error response if the client lacks a right.

    Raises:
        UnservedRequestError: A Produce request that expects no response was refused.
    """
    endpoint = call.endpoint
    for rule in endpoint.needs.whole:
        code = rule.check(request, call)
        if code:
            # Like Kafka, `check_acks` closes the connection of a producer that expects no response, because the
            # producer cannot detect the error otherwise.
            check_acks(endpoint, request, code.name)
            return error_answer(endpoint, request, call.api_version, code)
    element_rule = endpoint.needs.rule_for_each(request)
    denied = None if element_rule is None else _find_denied(request, element_rule, call)
    if element_rule is None or not denied:
        return endpoint.handle(request, call)
    code = AUTHORIZATION_FAILED[element_rule.resource_type]
    if not has_list(endpoint, call.api_version):
        return error_answer(endpoint, request, call.api_version, code)
    return _serve_rest(request, call, code, lambda target: _NAME_OF[element_rule.resource_type](target) in denied)


def _find_denied(request: Any, rule: ElementRule, call: Call) -> set[str]:
    """Return the names in a request that the client may not access in this way. Unknown ids are not included."""
    denied = {
        name
        for name in names_of(call.endpoint.names, request, call.core, call.api_version)
        if name is not None and not call.allows(rule.operation, rule.resource_type, name)
    }
    # The exemption is checked last, because most clients have the individual rights and each denial is logged.
    if denied and rule.exempt is not None and call.allows(rule.exempt, ResourceType.CLUSTER, CLUSTER_NAME):
        return set()
    return denied


def _serve_rest(request: Any, call: Call, code: ErrorCode, is_denied: Callable[[Target], bool]) -> Any:
    """Serve the permitted names of a request, and merge errors for the denied names into the response."""
    endpoint = call.endpoint
    errors = partial_error_answer(
        endpoint, select_targets(endpoint.names, request, is_denied, call.core), call.api_version, code
    )
    # The handler gets a request without the denied names, so no handler can forget to check rights.
    allowed = select_targets(endpoint.names, request, lambda target: not is_denied(target), call.core)

    def add_errors(served: Any) -> Any:
        check_acks(endpoint, request, code.name)
        if isinstance(served, DelayedResponse):
            return ChangedResponse(served, lambda response: merge_response(response, errors))
        # If the whole request failed, only that error is returned.
        return served if getattr(served, "error_code", 0) else merge_response(served, errors)

    return then(endpoint.handle(allowed, call), add_errors)
