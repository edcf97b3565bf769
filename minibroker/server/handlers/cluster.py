"""Handlers for brokers, controllers and features of the cluster."""

from collections.abc import Mapping, Sequence
from typing import Final, NoReturn

from minibroker.cluster.features import ELIGIBLE_LEADER_REPLICAS_VERSION, KRAFT_VERSION, METADATA_VERSION, Features
from minibroker.cluster.node import NO_NODE
from minibroker.cluster.routing.outcomes import DelayedResponse
from minibroker.cluster.routing.routes import RefusedRequestError
from minibroker.cluster.topic_admin import disk_refusal
from minibroker.coordinators.java_order import hash_order, string_hash
from minibroker.security.authorization.acls import Operation
from minibroker.server.requests.call import Call
from minibroker.server.requests.declarations import Refusal, handles
from minibroker.server.requests.held_for_metadata import hold
from minibroker.server.requests.requirements import asked_by_handler, authorized_cluster_operations, on_cluster
from minibroker_protocol.api_keys import ApiKey
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.internal_topics import METADATA_TOPIC
from minibroker_protocol.messages.cluster import (
    AddRaftVoterRequest,
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    FeatureUpdateKey,
    Listener,
    Node,
    PartitionState,
    RemoveRaftVoterRequest,
    ReplicaState,
    TopicState,
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
    UnregisterControllerRequest,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from minibroker_protocol.primitives import ZERO_UUID

_BROKERS: Final = 1
_CONTROLLERS: Final = 2
_NO_AUTHORIZED_OPERATIONS: Final = -(2**31)


@handles(ApiKey.DESCRIBE_CLUSTER, needs=asked_by_handler("DESCRIBE on the cluster, to get the authorized operations"))
def describe_cluster(request: DescribeClusterRequest, call: Call) -> DescribeClusterResponse:
    """DescribeCluster: return the running brokers and the controller (KIP-700).

    Versions 0-2 are served. Since version 1 a client names the type of endpoint that it expects (KIP-919). Every node
    here is a broker, so a request for controllers gets MISMATCHED_ENDPOINT_TYPE. An unknown type gets
    UNSUPPORTED_ENDPOINT_TYPE. Since version 2 a client can request fenced brokers (KIP-1073). Stopped brokers are
    reported as fenced.

    Kafka names a random broker as the controller, and that broker forwards requests. Here the controller is the same as
    in Metadata.
    """
    if request.endpoint_type == _CONTROLLERS:
        raise RefusedRequestError(
            ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER",
        )
    if request.endpoint_type != _BROKERS:
        message = f"Unsupported endpoint type {request.endpoint_type}"
        raise RefusedRequestError(ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, message)
    cluster = call.core.cluster
    brokers: list[DescribeClusterBroker] = []
    for node in cluster.nodes.values():
        if node.id in cluster.unregistered or not (node.is_up or request.include_fenced_brokers):
            continue
        host, port = call.address_of(node)
        brokers.append(
            DescribeClusterBroker(broker_id=node.id, host=host, port=port, rack=node.rack, is_fenced=not node.is_up)
        )
    return DescribeClusterResponse(
        error_code=ErrorCode.NONE,
        cluster_id=cluster.cluster_id,
        controller_id=NO_NODE if cluster.controller is None else cluster.controller.id,
        brokers=brokers,
        cluster_authorized_operations=authorized_cluster_operations(call)
        if request.include_cluster_authorized_operations
        else _NO_AUTHORIZED_OPERATIONS,
    )


_IDLE_RECORD_INTERVAL_MS: Final = 500
"""Kafka's default for `metadata.max.idle.interval.ms`."""


@handles(ApiKey.DESCRIBE_QUORUM, needs=on_cluster(Operation.DESCRIBE), refusal=Refusal(explained=True))
def describe_quorum(request: DescribeQuorumRequest, call: Call) -> DescribeQuorumResponse:
    """DescribeQuorum: describe the metadata quorum of the cluster (KIP-595, KIP-836, KIP-853).

    Versions 0-2 are served. There is no metadata log, only one copy of the cluster state. The controller is
    reported as the only voter and the leader of `__cluster_metadata`. The other running brokers are reported as
    observers that have caught up. Offsets grow as in an idle Kafka cluster, which writes a record every 500 ms.
    Version 2 reports the broker's listener in place of the controller's.

    If a request names anything but partition 0 of `__cluster_metadata`, each of its partitions gets
    UNKNOWN_TOPIC_OR_PARTITION.
    """
    requested = [
        (topic.topic_name, partition.partition_index) for topic in request.topics for partition in topic.partitions
    ]
    if requested != [(METADATA_TOPIC, 0)]:
        return _refuse_partitions(request)
    core = call.core
    controller = core.cluster.controller or call.node
    end = int(core.clock.monotonic_ms() - call.services.started_ms) // _IDLE_RECORD_INTERVAL_MS + 1
    now = core.clock.now_ms()
    host, port = call.address_of(controller)

    def replica(node_id: int) -> ReplicaState:
        return ReplicaState(
            replica_id=node_id, log_end_offset=end, last_fetch_timestamp=now, last_caught_up_timestamp=now
        )

    quorum = PartitionState(
        partition_index=0,
        error_code=ErrorCode.NONE,
        error_message="",
        leader_id=controller.id,
        leader_epoch=core.cluster.controller_epoch,
        high_watermark=end,
        current_voters=[replica(controller.id)],
        observers=[replica(node.id) for node in core.cluster.up if node is not controller],
    )
    return DescribeQuorumResponse(
        error_code=ErrorCode.NONE,
        error_message="",
        topics=[TopicState(topic_name=METADATA_TOPIC, partitions=[quorum])],
        nodes=[Node(node_id=controller.id, listeners=[Listener(name="CONTROLLER", host=host, port=port)])],
    )


def _refuse_partitions(request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    """Return UNKNOWN_TOPIC_OR_PARTITION for each partition, with 0 in all other fields, as in Kafka."""
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return DescribeQuorumResponse(
        error_code=ErrorCode.NONE,
        error_message="",
        topics=[
            TopicState(
                topic_name=topic.topic_name,
                partitions=[
                    PartitionState(
                        partition_index=partition.partition_index,
                        error_code=code,
                        error_message=code.meaning,
                        leader_id=0,
                        leader_epoch=0,
                        high_watermark=0,
                        current_voters=[],
                        observers=[],
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


_UPGRADE: Final = 1
_SAFE_DOWNGRADE: Final = 2
_UNSAFE_DOWNGRADE: Final = 3
_LEVELS_WITH_NEW_RECORDS: Final = frozenset({7, 8, 11, 13, 14, 15, 17, 23, 30, 32, 33})
"""The levels of metadata.version that added metadata records (`MetadataVersion.didMetadataChange`)."""
_FIRST_METADATA_LEVEL_WITH_FEATURES: Final = 4
_FIRST_METADATA_LEVEL_WITH_ELR: Final = 23
_MAX_HASHED_CHARACTERS: Final = 100_000
"""The maximum total length of the feature names that are hashed."""


@handles(ApiKey.UPDATE_FEATURES, needs=on_cluster(Operation.ALTER))
def update_features(request: UpdateFeaturesRequest, call: Call) -> UpdateFeaturesResponse | DelayedResponse:
    """UpdateFeatures: raise or lower feature levels (KIP-584, KIP-778, KIP-1022).

    Versions 0-2 are served. As in Kafka 4, either all updates succeed or none does: one invalid update fails the
    whole request with INVALID_UPDATE_VERSION. Earlier releases make the valid updates, and return a result for each
    feature. The last update of a feature counts. The rules are those of `FeatureControlManager`. metadata.version
    cannot be lowered past a level that changed the metadata records, and kraft.version cannot be lowered since 4.1.
    """
    features, is_partial = call.core.features, call.services.is_before("4.0")
    updates = {update.feature: update for update in request.feature_updates}
    levels = {name: update.max_version_level for name, update in updates.items()}
    errors: dict[str, str] = {}
    for update in _sort_in_hash_order(list(updates.values())):
        error = _find_level_error(update, call) or _find_dependency_error(update, levels, features)
        if error is not None and not is_partial:
            message = f"The update failed for all features since the following feature had an error: {error}"
            raise RefusedRequestError(ErrorCode.INVALID_UPDATE_VERSION, message)
        if error is not None:
            errors[update.feature] = error
    changed = {name: level for name, level in levels.items() if name not in errors and level != features.level(name)}
    if changed and not request.validate_only:
        try:
            features.finalize(changed)
        except OSError as failure:
            raise disk_refusal(failure) from None
    if is_partial:
        results = [
            UpdatableFeatureResult(
                feature=name,
                error_code=ErrorCode.INVALID_UPDATE_VERSION if name in errors else ErrorCode.NONE,
                error_message=errors.get(name),
            )
            for name in sorted(updates)
        ]
    else:
        results = [
            UpdatableFeatureResult(feature=update.feature, error_code=ErrorCode.NONE, error_message="NONE")
            for update in request.feature_updates
        ]
    response = UpdateFeaturesResponse(
        error_code=ErrorCode.NONE, error_message="" if is_partial else None, results=results
    )
    return hold(response, request, call)


def _sort_in_hash_order(updates: Sequence[FeatureUpdateKey]) -> Sequence[FeatureUpdateKey]:
    """Return updates in the order of Kafka's HashMap, which determines the error that the response reports."""
    # If the names are very long, keep the order of the request: hashing megabytes is slow, and no real name is so long.
    if sum(len(update.feature) for update in updates) > _MAX_HASHED_CHARACTERS:
        return updates
    return hash_order(updates, lambda update: string_hash(update.feature))


def _find_level_error(update: FeatureUpdateKey, call: Call) -> str | None:
    """Return why the feature cannot be set to the requested level, or None if it can."""
    name, requested = update.feature, update.max_version_level
    current = call.core.features.level(name)
    # In version 0, every update is an upgrade, because Kafka now ignores `allow_downgrade`.
    kind = update.upgrade_type
    supported = call.core.features.supported.get(name)
    is_before, controller = call.services.is_before, f"Local controller {call.node.id}"
    if kind not in {_UPGRADE, _SAFE_DOWNGRADE, _UNSAFE_DOWNGRADE}:
        reason = "The controller does not support the given upgrade type."
    elif requested < 0:
        reason = "A feature version cannot be less than 0."
    elif supported is None and requested > 0:
        reason = f"{controller} does not support this feature."
    elif supported is None and not is_before("4.0"):
        reason = f"Feature {name} not found."
    elif supported is not None and not supported.first <= requested <= supported.last:
        reason = f"{controller} only supports versions {supported.first}-{supported.last}"
    elif requested < current and kind == _UPGRADE:
        reason = (
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe "
            "downgrade."
        )
    elif requested > current and kind != _UPGRADE:
        reason = "Can't downgrade to a newer version."
    elif name == KRAFT_VERSION and requested < current and not is_before("4.1"):
        reason = "Can't downgrade the version of this feature."
    elif name == METADATA_VERSION:
        return _find_metadata_error(requested, current, is_unsafe=kind == _UNSAFE_DOWNGRADE, call=call)
    else:
        return None
    return _describe_error(update, reason)


def _find_metadata_error(requested: int, current: int, *, is_unsafe: bool, call: Call) -> str | None:
    """Return why metadata.version cannot be set to a supported level, or None if it can."""
    if requested < _FIRST_METADATA_LEVEL_WITH_FEATURES:
        return f"Invalid metadata.version {requested}. Unable to set a metadata.version less than 3.3-IV0"
    if not any(requested < level <= current for level in _LEVELS_WITH_NEW_RECORDS):
        return None
    problem = (
        f"Invalid metadata.version {requested}."
        if call.services.is_before("4.2")
        else f"Unsupported metadata.version downgrade from {current} to {requested}."
    )
    if is_unsafe:
        return f"{problem} Unsafe metadata downgrade is not supported in this version."
    return f"{problem} Refusing to perform the requested downgrade because it might delete metadata information."


def _find_dependency_error(update: FeatureUpdateKey, levels: Mapping[str, int], features: Features) -> str | None:
    """Return an error if metadata.version is too low for eligible leader replicas, which need its records."""
    name, level = update.feature, update.max_version_level
    metadata_level = levels.get(METADATA_VERSION, features.level(METADATA_VERSION))
    if name != ELIGIBLE_LEADER_REPLICAS_VERSION or not level or metadata_level >= _FIRST_METADATA_LEVEL_WITH_ELR:
        return None
    required = f"metadata.version level {_FIRST_METADATA_LEVEL_WITH_ELR}"
    return _describe_error(update, f"{name} could not be set to {level} because it depends on {required}")


def _describe_error(update: FeatureUpdateKey, reason: str) -> str:
    return f"Invalid update version {update.max_version_level} for feature {update.feature}. {reason}"


@handles(ApiKey.UNREGISTER_BROKER, needs=on_cluster(Operation.ALTER), refusal=Refusal(explained=True))
def unregister_broker(request: UnregisterBrokerRequest, call: Call) -> UnregisterBrokerResponse:
    """UnregisterBroker: remove a broker from the cluster (KIP-500).

    Version 0 is served. An unknown broker gets BROKER_ID_NOT_REGISTERED. A stopped broker that was unregistered is
    no longer listed as fenced. It cannot be assigned partitions manually, but keeps its partitions, as in Kafka. A
    running broker is stopped after the response, while a Kafka broker would keep running outside the cluster. In
    both cases, starting the broker registers it again.
    """
    cluster = call.core.cluster
    node = cluster.nodes.get(request.broker_id)
    if node is None or node.id in cluster.unregistered:
        message = f"Broker ID {request.broker_id} is not currently registered"
        raise RefusedRequestError(ErrorCode.BROKER_ID_NOT_REGISTERED, message)
    cluster.unregistered.add(node.id)
    call.core.call_soon(lambda: cluster.stop_node(node.id))
    return UnregisterBrokerResponse(error_code=ErrorCode.NONE, error_message=None)


@handles(ApiKey.ADD_RAFT_VOTER, needs=on_cluster(Operation.ALTER), refusal=Refusal(explained=True))
def add_raft_voter(request: AddRaftVoterRequest, call: Call) -> NoReturn:
    """AddRaftVoter: refuse to make a controller a voter of the metadata quorum (KIP-853).

    Versions 0-1 are served. The voters are fixed, as in a Kafka cluster with kraft.version 0, so the error is
    UNSUPPORTED_VERSION. The checks of Kafka's `KafkaRaftClient` come first: INCONSISTENT_CLUSTER_ID for the id of
    another cluster, and INVALID_REQUEST if no voter is named.
    """
    raise _refuse_voter(request, call, "Add", "adding")


@handles(ApiKey.REMOVE_RAFT_VOTER, needs=on_cluster(Operation.ALTER), refusal=Refusal(explained=True))
def remove_raft_voter(request: RemoveRaftVoterRequest, call: Call) -> NoReturn:
    """RemoveRaftVoter: refuse to remove a voter from the metadata quorum (KIP-853).

    Version 0 is served. The voters are fixed, as in a Kafka cluster with kraft.version 0, so the error is
    UNSUPPORTED_VERSION. The checks of Kafka's `KafkaRaftClient` come first: INCONSISTENT_CLUSTER_ID for the id of
    another cluster, and INVALID_REQUEST if no voter is named.
    """
    raise _refuse_voter(request, call, "Remove", "removing")


def _refuse_voter(
    request: AddRaftVoterRequest | RemoveRaftVoterRequest, call: Call, verb: str, action: str
) -> RefusedRequestError:
    """Return the refusal of a request to change the voters, with Kafka's message.

    Args:
        request: The request to add or remove a voter.
        call: The context of the request.
        verb: The change as an imperative, for the message.
        action: The change as a gerund, for the message.
    """
    cluster_id = call.core.cluster.cluster_id
    if request.cluster_id not in {None, cluster_id}:
        message = f'The given id "{request.cluster_id}" doesn\'t match the cluster id "{cluster_id}"'
        return RefusedRequestError(ErrorCode.INCONSISTENT_CLUSTER_ID, message)
    if request.voter_id < 0 or request.voter_directory_id == ZERO_UUID:
        return RefusedRequestError(ErrorCode.INVALID_REQUEST, f"{verb} voter request didn't include a valid voter")
    message = f"Cluster doesn't support {action} voter because the kraft.version feature is 0"
    return RefusedRequestError(ErrorCode.UNSUPPORTED_VERSION, message)


@handles(ApiKey.UNREGISTER_CONTROLLER, needs=on_cluster(Operation.ALTER), refusal=Refusal(explained=True))
def unregister_controller(request: UnregisterControllerRequest, call: Call) -> NoReturn:
    """UnregisterController: refuse to remove a controller, since the cluster has only one (KIP-1312).

    Version 0 is served. The controller is the only voter of its quorum, so removing it gets INVALID_REQUEST. Any
    other id gets CONTROLLER_ID_NOT_REGISTERED.
    """
    requested, controller = request.controller_id, call.core.cluster.controller
    if controller is not None and requested == controller.id:
        message = f"Cannot unregister controller {requested} because it is part of the voter set."
        raise RefusedRequestError(ErrorCode.INVALID_REQUEST, message)
    message = f"Controller ID {requested} is not currently registered."
    raise RefusedRequestError(ErrorCode.CONTROLLER_ID_NOT_REGISTERED, message)
