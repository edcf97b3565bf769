"""Controller mutations: partitions created or deleted by a request, charged to the client's quota (KIP-599)."""

from minibroker.cluster.topic_admin import TopicError
from minibroker.server.requests.call import Call
from minibroker_protocol.error_codes import ErrorCode


def count_mutation(call: Call, partitions: int, first_strict: int) -> None:
    """Hold partitions that are made or removed against the client's quota (KIP-599).

    A client that is over it has to wait; from version `first_strict` on it is refused, with a TopicError.
    """
    quotas = call.services.quotas
    if quotas is None:
        return
    strict = call.api_version >= first_strict
    wait_ms = quotas.mutate(call.session, call.client_id, partitions, strict=strict)
    call.session.muted_ms = max(call.session.muted_ms, wait_ms)
    if strict and wait_ms:
        code = ErrorCode.THROTTLING_QUOTA_EXCEEDED
        raise TopicError(code, code.meaning)
