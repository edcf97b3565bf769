"""The dispatch table, and the way of a request from bytes to its answer.

No sockets here: a test can drive it with bytes alone. `ROUTES` is the one place that says which APIs are served in
which versions; ApiVersions answers from it. The modules of an API (`minibroker_protocol.messages.<module>` and
`minibroker.handlers.<module>`) are imported when its first request comes.
"""

import importlib
from collections.abc import Callable
from types import GeneratorType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, cast

from minibroker.call import Call, Parked, UnservedRequestError
from minibroker.produce_memo import ProduceMemo, has_many_batches
from minibroker.services import Services
from minibroker.session import Session
from minibroker.slices import Steps, Work, result_of
from minibroker_protocol.api_keys import ApiKey
from minibroker_protocol.codec import Splices, decode, decode_in_slices, encode, encode_in_slices
from minibroker_protocol.errors import EncodeError, TooManyElementsError
from minibroker_protocol.frame import (
    RequestHeader,
    begin_response,
    correlation_id_of,
    end_response,
    read_request_header,
)
from minibroker_protocol.primitives import skip_tagged_fields
from minibroker_protocol.schema import VersionRange, schema_of

if TYPE_CHECKING:
    from minibroker.requests.declarations import Names, Refusal
    from minibroker.security.authorization.requirements import Requirement


class Route(NamedTuple):
    """One served API: versions `first` to `last`; `module` and `message` name its declarations and its handler."""

    key: ApiKey
    first: int
    last: int
    module: str
    message: str


ROUTES: Final = (
    Route(ApiKey.PRODUCE, 0, 13, "produce", "Produce"),
    Route(ApiKey.FETCH, 0, 18, "fetch", "Fetch"),
    Route(ApiKey.LIST_OFFSETS, 0, 11, "list_offsets", "ListOffsets"),
    Route(ApiKey.METADATA, 0, 13, "metadata", "Metadata"),
    Route(ApiKey.LEADER_AND_ISR, 0, 7, "leader_and_isr", "LeaderAndIsr"),
    Route(ApiKey.STOP_REPLICA, 0, 4, "stop_replica", "StopReplica"),
    Route(ApiKey.UPDATE_METADATA, 0, 8, "update_metadata", "UpdateMetadata"),
    Route(ApiKey.CONTROLLED_SHUTDOWN, 0, 3, "controlled_shutdown", "ControlledShutdown"),
    Route(ApiKey.OFFSET_COMMIT, 0, 10, "offset_commit", "OffsetCommit"),
    Route(ApiKey.OFFSET_FETCH, 0, 10, "offset_fetch", "OffsetFetch"),
    Route(ApiKey.FIND_COORDINATOR, 0, 6, "find_coordinator", "FindCoordinator"),
    Route(ApiKey.JOIN_GROUP, 0, 9, "join_group", "JoinGroup"),
    Route(ApiKey.HEARTBEAT, 0, 4, "heartbeat", "Heartbeat"),
    Route(ApiKey.LEAVE_GROUP, 0, 5, "leave_group", "LeaveGroup"),
    Route(ApiKey.SYNC_GROUP, 0, 5, "sync_group", "SyncGroup"),
    Route(ApiKey.DESCRIBE_GROUPS, 0, 6, "describe_groups", "DescribeGroups"),
    Route(ApiKey.LIST_GROUPS, 0, 5, "list_groups", "ListGroups"),
    Route(ApiKey.SASL_HANDSHAKE, 0, 1, "sasl_handshake", "SaslHandshake"),
    Route(ApiKey.API_VERSIONS, 0, 5, "api_versions", "ApiVersions"),
    Route(ApiKey.CREATE_TOPICS, 0, 7, "create_topics", "CreateTopics"),
    Route(ApiKey.DELETE_TOPICS, 0, 6, "delete_topics", "DeleteTopics"),
    Route(ApiKey.DELETE_RECORDS, 0, 2, "delete_records", "DeleteRecords"),
    Route(ApiKey.INIT_PRODUCER_ID, 0, 5, "init_producer_id", "InitProducerId"),
    Route(ApiKey.OFFSET_FOR_LEADER_EPOCH, 0, 4, "offset_for_leader_epoch", "OffsetForLeaderEpoch"),
    Route(ApiKey.ADD_PARTITIONS_TO_TXN, 0, 5, "add_partitions_to_txn", "AddPartitionsToTxn"),
    Route(ApiKey.ADD_OFFSETS_TO_TXN, 0, 4, "add_offsets_to_txn", "AddOffsetsToTxn"),
    Route(ApiKey.END_TXN, 0, 5, "end_txn", "EndTxn"),
    Route(ApiKey.WRITE_TXN_MARKERS, 0, 2, "write_txn_markers", "WriteTxnMarkers"),
    Route(ApiKey.TXN_OFFSET_COMMIT, 0, 6, "txn_offset_commit", "TxnOffsetCommit"),
    Route(ApiKey.DESCRIBE_ACLS, 0, 3, "describe_acls", "DescribeAcls"),
    Route(ApiKey.CREATE_ACLS, 0, 3, "create_acls", "CreateAcls"),
    Route(ApiKey.DELETE_ACLS, 0, 3, "delete_acls", "DeleteAcls"),
    Route(ApiKey.DESCRIBE_CONFIGS, 0, 4, "describe_configs", "DescribeConfigs"),
    Route(ApiKey.ALTER_CONFIGS, 0, 2, "alter_configs", "AlterConfigs"),
    Route(ApiKey.ALTER_REPLICA_LOG_DIRS, 0, 2, "alter_replica_log_dirs", "AlterReplicaLogDirs"),
    Route(ApiKey.DESCRIBE_LOG_DIRS, 0, 5, "describe_log_dirs", "DescribeLogDirs"),
    Route(ApiKey.SASL_AUTHENTICATE, 0, 2, "sasl_authenticate", "SaslAuthenticate"),
    Route(ApiKey.CREATE_PARTITIONS, 0, 3, "create_partitions", "CreatePartitions"),
    Route(ApiKey.CREATE_DELEGATION_TOKEN, 0, 3, "create_delegation_token", "CreateDelegationToken"),
    Route(ApiKey.RENEW_DELEGATION_TOKEN, 0, 2, "renew_delegation_token", "RenewDelegationToken"),
    Route(ApiKey.EXPIRE_DELEGATION_TOKEN, 0, 2, "expire_delegation_token", "ExpireDelegationToken"),
    Route(ApiKey.DESCRIBE_DELEGATION_TOKEN, 0, 3, "describe_delegation_token", "DescribeDelegationToken"),
    Route(ApiKey.DELETE_GROUPS, 0, 3, "delete_groups", "DeleteGroups"),
    Route(ApiKey.ELECT_LEADERS, 0, 2, "elect_leaders", "ElectLeaders"),
    Route(ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, 1, "incremental_alter_configs", "IncrementalAlterConfigs"),
    Route(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, 1, "alter_partition_reassignments", "AlterPartitionReassignments"),
    Route(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, 0, "list_partition_reassignments", "ListPartitionReassignments"),
    Route(ApiKey.OFFSET_DELETE, 0, 0, "offset_delete", "OffsetDelete"),
    Route(ApiKey.DESCRIBE_CLIENT_QUOTAS, 0, 1, "describe_client_quotas", "DescribeClientQuotas"),
    Route(ApiKey.ALTER_CLIENT_QUOTAS, 0, 1, "alter_client_quotas", "AlterClientQuotas"),
    Route(
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, 0, "describe_user_scram_credentials", "DescribeUserScramCredentials"
    ),
    Route(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, 0, "alter_user_scram_credentials", "AlterUserScramCredentials"),
    Route(ApiKey.DESCRIBE_QUORUM, 0, 2, "describe_quorum", "DescribeQuorum"),
    Route(ApiKey.ALTER_PARTITION, 0, 3, "alter_partition", "AlterPartition"),
    Route(ApiKey.UPDATE_FEATURES, 0, 2, "update_features", "UpdateFeatures"),
    Route(ApiKey.ENVELOPE, 0, 0, "envelope", "Envelope"),
    Route(ApiKey.DESCRIBE_CLUSTER, 0, 2, "describe_cluster", "DescribeCluster"),
    Route(ApiKey.DESCRIBE_PRODUCERS, 0, 0, "describe_producers", "DescribeProducers"),
    Route(ApiKey.UNREGISTER_BROKER, 0, 0, "unregister_broker", "UnregisterBroker"),
    Route(ApiKey.DESCRIBE_TRANSACTIONS, 0, 0, "describe_transactions", "DescribeTransactions"),
    Route(ApiKey.LIST_TRANSACTIONS, 0, 2, "list_transactions", "ListTransactions"),
    Route(ApiKey.ALLOCATE_PRODUCER_IDS, 0, 0, "allocate_producer_ids", "AllocateProducerIds"),
    Route(ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, 1, "consumer_group_heartbeat", "ConsumerGroupHeartbeat"),
    Route(ApiKey.CONSUMER_GROUP_DESCRIBE, 0, 1, "consumer_group_describe", "ConsumerGroupDescribe"),
    Route(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, 0, 0, "get_telemetry_subscriptions", "GetTelemetrySubscriptions"),
    Route(ApiKey.PUSH_TELEMETRY, 0, 0, "push_telemetry", "PushTelemetry"),
    Route(ApiKey.LIST_CONFIG_RESOURCES, 0, 1, "list_config_resources", "ListConfigResources"),
    Route(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, 0, "describe_topic_partitions", "DescribeTopicPartitions"),
    Route(ApiKey.ADD_RAFT_VOTER, 0, 1, "add_raft_voter", "AddRaftVoter"),
    Route(ApiKey.REMOVE_RAFT_VOTER, 0, 0, "remove_raft_voter", "RemoveRaftVoter"),
    Route(ApiKey.UNREGISTER_CONTROLLER, 0, 0, "unregister_controller", "UnregisterController"),
)


class Answer(NamedTuple):
    """A response that is ready to be encoded; encoding waits until the wake-up's appends are written.

    `entry` is what the journal has of the request (`minibroker.inspection.journal.Entry`), if there is one, and
    `encoded` the whole frame of a large response, which was encoded in slices.
    """

    response: Any
    version: int
    correlation_id: int
    flexible_header: bool
    entry: Any = None
    encoded: tuple[bytearray, Splices] | None = None


NO_ANSWER: Final = Answer(None, 0, 0, flexible_header=False)
"""Of what stands in the place of a request and is never delivered."""


class Waiting(NamedTuple):
    """A parked request and the answer that it will have once its response is there."""

    parked: Parked
    answer: Answer


Outcome = Answer | Waiting | None
"""What a connection does for a request: send an answer, wait for one, or nothing at all."""


class SlicedRequest(Parked):
    """A request whose work goes on in slices.

    Attributes:
        finish: called once, with a function that returns the outcome or raises the error that has ended the request.
        amend: changes the outcome before it is encoded; its arguments are the outcome, and for how many seconds the
            work has run.
    """

    finish: Callable[[Callable[[], Outcome]], None]

    def __init__(self, work: Work[Outcome], services: Services) -> None:
        self._work = work
        self._services = services
        self._is_gone = False
        self.amend: Callable[[Outcome, float], Outcome] | None = None
        work.then(self._done, self._failed)

    def cancel(self) -> None:
        """Let the work go on to its end, since half of a change would be worse, but tell nobody."""
        self._is_gone = True

    def _done(self, outcome: Outcome) -> None:
        if self._is_gone:
            if isinstance(outcome, Waiting):
                outcome.parked.cancel()
            return
        if self.amend is not None:
            outcome = self.amend(outcome, self._work.spent_s)
        if not isinstance(outcome, Answer):
            self._tell(outcome)
            return
        self._services.core.writes.commit()
        try:
            encoding = self._services.core.slices.begin(_encoded(outcome))
        except Exception as error:  # noqa: BLE001 - the connection decides what it means
            self._failed(error)
            return
        if isinstance(encoding, Work):
            encoding.then(self._tell, self._failed)
        else:
            self._tell(encoding)

    def _tell(self, outcome: Outcome) -> None:
        if not self._is_gone:
            self.finish(lambda: outcome)

    def _failed(self, error: Exception) -> None:
        def fail() -> Outcome:
            raise error

        if not self._is_gone:
            self.finish(fail)


class Handler(Protocol):
    """What `minibroker.handlers.<module>.handle` looks like.

    It returns a response, None for no response at all, a `Parked`, or `Steps` of which one of these is the result.
    The steps are those of a request whose work grows with what the client has sent, or with what the broker has; they
    copy what they keep of the request's BYTES fields past a `yield`.
    """

    def __call__(self, request: Any, call: Call) -> Any:
        """Serve one request."""
        ...


class Endpoint(NamedTuple):
    """A route with its modules loaded: the API's messages, its handler, and what the handler declares beside `handle`.

    Attributes:
        names: the topics, groups and so on that its requests name.
        needs: the rights of a client whose requests are served.
        refusal: how its responses refuse a request.
    """

    route: Route
    request: type[Any]
    response: type[Any]
    flexible: VersionRange
    handle: Handler
    names: "Names"
    needs: "Requirement"
    refusal: "Refusal"

    def has_flexible_response_header(self, version: int) -> bool:
        """ApiVersions keeps response header v0, which a client can read before it knows the broker (KIP-511)."""
        return version in self.flexible and self.route.key is not _API_VERSIONS


# An enum's members are looked up each time that they are named.
_PRODUCE: Final = ApiKey.PRODUCE
_API_VERSIONS: Final = ApiKey.API_VERSIONS
_IN_ORDER: Final = frozenset(
    int(key)
    for key in (
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.ELECT_LEADERS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.ALTER_CLIENT_QUOTAS,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        ApiKey.CREATE_ACLS,
        ApiKey.DELETE_ACLS,
        ApiKey.UPDATE_FEATURES,
        ApiKey.CREATE_DELEGATION_TOKEN,
        ApiKey.RENEW_DELEGATION_TOKEN,
        ApiKey.EXPIRE_DELEGATION_TOKEN,
    )
)
"""Changes of the cluster's metadata, which a Kafka's controller makes one request after the other."""
_FEW_ELEMENTS: Final = 1000
"""A request with more elements in its arrays is decoded in slices."""
_DELETING: Final = frozenset(int(key).to_bytes(2, "big") for key in (ApiKey.DELETE_TOPICS, ApiKey.DELETE_RECORDS))
_UNSERVED: Final = (1, 0)
_ROUTE_BY_KEY: Final = {int(route.key): route for route in ROUTES}
_KEYS: Final = {route.message: route.key for route in ROUTES}
_ENDPOINTS: Final[dict[int, Endpoint]] = {}


def endpoint(key: int) -> Endpoint:
    """The endpoint of an API key. UnservedRequestError for a key that is not in the table."""
    known = _ENDPOINTS.get(key)
    if known is None:
        route = _ROUTE_BY_KEY.get(key)
        if route is None:
            raise UnservedRequestError(f"API key {key} is not served")
        known = _ENDPOINTS[key] = _loaded(route)
    return known


def endpoint_named(api: str) -> Endpoint:
    """The endpoint of an API's name, such as "ListOffsets". KeyError for a name that is not in the table."""
    return endpoint(_KEYS[api])


def _loaded(route: Route) -> Endpoint:
    from minibroker.requests.declarations import NO_NAMES, PLAIN_REFUSAL  # noqa: PLC0415 - only requests need them

    messages = importlib.import_module(f"minibroker_protocol.messages.{route.module}")
    handler = importlib.import_module(f"minibroker.handlers.{route.module}")
    request = getattr(messages, f"{route.message}Request")
    refusal: Refusal = getattr(handler, "REFUSAL", PLAIN_REFUSAL)
    return Endpoint(
        route,
        request,
        getattr(messages, f"{route.message}Response"),
        schema_of(request).flexible,
        handler.handle,
        getattr(handler, "NAMES", NO_NAMES),
        handler.NEEDS,
        refusal._replace(whole=getattr(handler, "refuse", None), parts=getattr(handler, "refuse_parts", None)),
    )


def accept(frame: memoryview, session: Session) -> Answer | Waiting | None:
    """Serve one request frame of a connection.

    Raises DecodeError for bytes that are no such request and UnservedRequestError for one that is not in the table;
    in both cases the connection should close.
    """
    memo, services = session.memo, session.services
    if memo is not None and memo.recall(frame):
        return _accept_repeated(frame, memo)
    try:
        served, header, version, request = read_request(frame, services)
    except TooManyElementsError:
        return _accept_large(frame, session)
    if header.api_key in _IN_ORDER and services.core.slices.has_work_in_order:
        return _accept_large(frame, session)
    call = Call(services.core, services, version, header.client_id, session)
    if served.route.key is not _PRODUCE:
        services.core.writes.commit()
    elif has_many_batches(request):  # which lie in memory that is used again
        return _accept_large(frame, session)
    elif memo is not None:
        memo.note(frame, request, call)
    authorizer = services.authorizer
    response = served.handle(request, call) if authorizer is None else authorizer.serve(served, request, call)
    if memo is not None:
        memo.forget_records()
    if isinstance(response, GeneratorType):
        steps = cast("Steps[Any]", response)
        try:  # most requests are small: their steps end before it is worth while to look at the clock
            next(steps)
            next(steps)
        except StopIteration as end:
            response = end.value
        else:
            return in_slices(_outcome_in_slices(steps, served, header, version), services, header.api_key)
    flexible_header = served.has_flexible_response_header(version)
    return outcome_of(response, version, header.correlation_id, flexible_header=flexible_header)


def serve(endpoint: Endpoint, request: Any, call: Call) -> Any:
    """What the handler returns, as far as the client may ask for it."""
    authorizer = call.services.authorizer
    return endpoint.handle(request, call) if authorizer is None else authorizer.serve(endpoint, request, call)


def in_slices(steps: Steps[Outcome], services: Services, api_key: int) -> Outcome:
    """The outcome of `steps`, or a `Waiting` for it when there is more to do than fits into a slice."""
    outcome = services.core.slices.begin(steps, in_order=api_key in _IN_ORDER)
    if isinstance(outcome, Work):
        return Waiting(SlicedRequest(outcome, services), NO_ANSWER)
    return outcome


def _accept_large(frame: memoryview, session: Session) -> Outcome:
    """Serve a request from its first byte in slices."""
    api_key = int.from_bytes(frame[:2], "big", signed=True)
    return in_slices(_serve_large(session.keep(frame), session), session.services, api_key)


def _serve_large(frame: memoryview, session: Session) -> Steps[Outcome]:
    services = session.services
    served, header, version, request = yield from read_large_request(frame, services)
    if served.route.key is not _PRODUCE:
        services.core.writes.commit()
    response = serve(served, request, Call(services.core, services, version, header.client_id, session))
    response = yield from result_of(response)
    flexible_header = served.has_flexible_response_header(version)
    return outcome_of(response, version, header.correlation_id, flexible_header=flexible_header)


def _outcome_in_slices(response: Steps[Any], served: Endpoint, header: RequestHeader, version: int) -> Steps[Outcome]:
    flexible_header = served.has_flexible_response_header(version)
    result = yield from response
    return outcome_of(result, version, header.correlation_id, flexible_header=flexible_header)


def _encoded(answer: Answer) -> Steps[Answer]:
    """The answer with its bytes."""
    out = bytearray()
    splices: Splices = []
    start = begin_response(out, answer.correlation_id, flexible_header=answer.flexible_header)
    yield from encode_in_slices(answer.response, answer.version, out, splices)
    end_response(out, start, sum(splice.size for _, splice in splices))
    return answer._replace(encoded=(out, splices))


def read_request(frame: memoryview, services: Services) -> tuple[Endpoint, RequestHeader, int, Any]:
    """(endpoint, header, version of the answer, request) of a frame; errors as those of `accept`.

    The request is None, and the version 0, for ApiVersions in a version that is not served. TooManyElementsError for
    one that should be read by `read_large_request`.
    """
    served, header, version, body = _read_header(frame, services)
    if body is None:
        return served, header, version, None
    # Kafka passes over bytes after the end, too.
    request, _ = decode(served.request, frame, version, body, _FEW_ELEMENTS)
    return served, header, version, request


def read_large_request(frame: memoryview, services: Services) -> Steps[tuple[Endpoint, RequestHeader, int, Any]]:
    """`read_request` for one with many elements, in slices; TooManyElementsError for one that has too many of them."""
    served, header, version, body = _read_header(frame, services)
    if body is None:
        return served, header, version, None
    most = services.core.config.integer("minibroker.request.elements.max")
    request, _ = yield from decode_in_slices(served.request, frame, version, body, most)
    return served, header, version, request


def _read_header(frame: memoryview, services: Services) -> tuple[Endpoint, RequestHeader, int, int | None]:
    """(endpoint, header, version of the answer, where the request begins, or None if it is not to be read)."""
    header = read_request_header(frame)
    version = header.api_version
    served = endpoint(header.api_key)
    route = served.route
    first, last = (
        (route.first, route.last) if services.served is None else services.served.get(header.api_key, _UNSERVED)
    )
    if not first <= version <= last:
        if route.key is not _API_VERSIONS or not first <= last:
            raise UnservedRequestError(f"{route.key.name} v{version} is not served")
        # A client from the future is told the table in the form that every client can read (KIP-511).
        return served, header, 0, None
    body = header.body
    if version in served.flexible:
        body = skip_tagged_fields(frame, body)
    return served, header, version, body


def _accept_repeated(frame: memoryview, memo: ProduceMemo) -> Answer | Waiting | None:
    served, call = _ENDPOINTS[_PRODUCE], memo.call
    authorizer = call.services.authorizer
    response = served.handle(memo.request, call) if authorizer is None else authorizer.serve(served, memo.request, call)
    memo.forget_records()
    if isinstance(response, GeneratorType):
        steps = _outcome_in_slices(response, served, read_request_header(frame), call.api_version)
        return in_slices(steps, call.services, int(_PRODUCE))
    return outcome_of(response, call.api_version, correlation_id_of(frame), flexible_header=memo.is_flexible)


def outcome_of(
    response: Any, version: int, correlation_id: int, *, flexible_header: bool, entry: Any = None
) -> Answer | Waiting | None:
    """What becomes of what a handler has returned."""
    if response is None:
        return None
    if isinstance(response, Parked):
        return Waiting(response, Answer(None, version, correlation_id, flexible_header, entry))
    return Answer(response, version, correlation_id, flexible_header, entry)


def may_delete_files(frame: memoryview) -> bool:
    """Whether the request in `frame` may remove what a fetch before it has found."""
    return bytes(frame[:2]) in _DELETING


class UnencodableAnswerError(Exception):
    """An answer has no form in the protocol, such as text that is too long; the message names its type and version.

    Attributes:
        data, splices: the frames of the answers before it, which can leave.
    """

    def __init__(self, message: str, data: bytearray, splices: Splices) -> None:
        super().__init__(message)
        self.data = data
        self.splices = splices


def encode_answers(answers: list[Answer]) -> tuple[bytearray, Splices]:
    """The frames of `answers`, in order, with the holes that record data on disk will fill. UnencodableAnswerError."""
    out = bytearray()
    splices: Splices = []
    for answer in answers:
        if answer.encoded is not None:
            data, holes = answer.encoded
            splices += [(len(out) + position, splice) for position, splice in holes] if out else holes
            out += data
            continue
        start = begin_response(out, answer.correlation_id, flexible_header=answer.flexible_header)
        before = len(splices)
        try:
            encode(answer.response, answer.version, out, splices)
        except EncodeError as error:
            del out[start:], splices[before:]
            raise UnencodableAnswerError(str(error), out, splices) from error
        end_response(out, start, sum(splice.size for _, splice in splices[before:]) if len(splices) > before else 0)
    return out, splices
