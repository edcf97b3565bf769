"""DescribeCluster, DescribeQuorum, UpdateFeatures, and the APIs that unregister nodes or change voters.

Error codes and messages of Kafka: 3.9.1 and 4.3.1 for DescribeCluster, 3.9.1 for the quorum and its voters, 4.3.1 for
UnregisterBroker, and 4.4.0 for UpdateFeatures.
"""

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.cluster import (
    AddRaftVoterRequest,
    DescribeClusterRequest,
    DescribeQuorumRequest,
    FeatureUpdateKey,
    PartitionData,
    RemoveRaftVoterRequest,
    TopicData,
    UnregisterBrokerRequest,
    UnregisterControllerRequest,
    UpdateFeaturesRequest,
)
from tests.broker.cluster.nodes import create, leader
from tests.broker.harness import ADVERTISED, Harness


def describe(harness: Harness, version: int = 2, **fields: Any) -> Any:
    request = DescribeClusterRequest(**{"include_cluster_authorized_operations": False, **fields})
    return harness.ask(request, version)


@pytest.mark.parametrize("version", range(3))
def test_the_broker_is_told_with_its_address_and_its_cluster(harness: Harness, version: int) -> None:
    response = describe(harness, version)
    assert (response.error_code, response.cluster_id, response.controller_id) == (0, harness.core.cluster.cluster_id, 1)
    assert [(broker.broker_id, broker.host, broker.port) for broker in response.brokers] == [(1, *ADVERTISED)]
    assert response.cluster_authorized_operations == -(2**31)


def test_everything_may_be_done_to_a_cluster_without_an_authorizer(harness: Harness) -> None:
    assert describe(harness, include_cluster_authorized_operations=True).cluster_authorized_operations == 8096


def test_who_looks_for_controllers_has_come_to_the_wrong_place(harness: Harness) -> None:
    response = describe(harness, 1, endpoint_type=2)
    assert (response.error_code, response.cluster_id, response.brokers) == (ErrorCode.MISMATCHED_ENDPOINT_TYPE, "", [])
    assert describe(harness, 1, endpoint_type=9).error_code == ErrorCode.UNSUPPORTED_ENDPOINT_TYPE


def test_a_broker_that_is_down_is_told_as_fenced_to_those_who_ask(several: Harness) -> None:
    several.core.cluster.stop_node(2)
    assert [broker.broker_id for broker in describe(several).brokers] == [1, 3]
    brokers = describe(several, include_fenced_brokers=True).brokers
    assert [(broker.broker_id, broker.is_fenced) for broker in brokers] == [(1, False), (2, True), (3, False)]


def test_the_controller_is_another_one_once_it_is_down(several: Harness) -> None:
    several.core.cluster.stop_node(1)
    several.asks = 3
    assert describe(several).controller_id == 2


METADATA = ("__cluster_metadata", [0])


def ask(harness: Harness, *requested: tuple[str, list[int]], version: int = 2) -> Any:
    topics = [
        TopicData(topic_name=name, partitions=[PartitionData(partition_index=index) for index in indexes])
        for name, indexes in requested
    ]
    response = harness.ask(DescribeQuorumRequest(topics=topics), version)
    assert response.error_code == 0
    return response


def test_the_times_of_the_leader_are_now_from_version_1_on(harness: Harness) -> None:
    now = harness.clock.now_ms()
    for version, time in ((0, -1), (1, now), (2, now)):
        (voter,) = ask(harness, METADATA, version=version).topics[0].partitions[0].current_voters
        assert (voter.last_fetch_timestamp, voter.last_caught_up_timestamp) == (time, time)


def test_offsets_grow_as_those_of_an_idle_kafka(harness: Harness) -> None:
    def high_watermark() -> Any:
        return ask(harness, METADATA).topics[0].partitions[0].high_watermark

    before = high_watermark()
    assert before > 0
    harness.clock.advance(10_000)
    assert high_watermark() == before + 20


def test_other_brokers_observe_while_they_are_up(several: Harness) -> None:
    several.core.cluster.stop_node(2)
    quorum = ask(several, METADATA).topics[0].partitions[0]
    assert [observer.replica_id for observer in quorum.observers] == [3]


def test_another_controller_leads_in_another_epoch(several: Harness) -> None:
    several.core.cluster.stop_node(1)
    several.asks = 2
    quorum = ask(several, METADATA).topics[0].partitions[0]
    assert (quorum.leader_id, quorum.leader_epoch, [voter.replica_id for voter in quorum.current_voters]) == (2, 2, [2])


@pytest.mark.parametrize(
    ("make", "version"),
    [
        (partial(AddRaftVoterRequest, timeout_ms=1000, listeners=[]), 0),
        (partial(AddRaftVoterRequest, timeout_ms=1000, listeners=[]), 1),
        (RemoveRaftVoterRequest, 0),
    ],
)
def test_no_voter_can_be_added_or_removed(harness: Harness, make: Callable[..., Any], version: int) -> None:
    for cluster_id in (None, harness.core.cluster.cluster_id):
        request = make(cluster_id=cluster_id, voter_id=7, voter_directory_id=b"\1" * 16)
        response = harness.ask(request, version)
        assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
        assert "kraft.version feature is 0" in response.error_message


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Harness]:
    """Three brokers with a topic "t"."""
    harness = Harness(str(tmp_path / "data"), brokers=3)
    create(harness, by_hand=((3, 1, 2),))
    yield harness
    harness.close()


def unregister(harness: Harness, broker: int) -> tuple[int, str | None]:
    response = harness.ask(UnregisterBrokerRequest(broker_id=broker), 0)
    return response.error_code, response.error_message


def registered(harness: Harness) -> list[int]:
    request = DescribeClusterRequest(include_cluster_authorized_operations=False, include_fenced_brokers=True)
    response: Any = harness.ask(request, 2)
    return [broker.broker_id for broker in response.brokers]


def test_a_broker_that_is_down_is_forgotten_until_it_is_started(cluster: Harness) -> None:
    cluster.core.cluster.stop_node(3)
    assert unregister(cluster, 3) == (0, None)
    assert registered(cluster) == [1, 2]
    assert unregister(cluster, 3)[0] == ErrorCode.BROKER_ID_NOT_REGISTERED
    cluster.core.cluster.start_node(3)
    assert registered(cluster) == [1, 2, 3]


def test_a_broker_that_is_up_goes_down(cluster: Harness) -> None:
    assert unregister(cluster, 3) == (0, None)
    assert not cluster.core.cluster.nodes[3].is_up
    assert leader(cluster) == 1


def test_the_only_controller_stays(harness: Harness) -> None:
    response = harness.ask(UnregisterControllerRequest(controller_id=harness.core.cluster.first.id), 0)
    assert response.error_code == ErrorCode.INVALID_REQUEST
    assert response.error_message == "Cannot unregister controller 1 because it is part of the voter set."


@pytest.mark.parametrize("controller", [-1, 0, 2])
def test_a_controller_that_was_never_there_is_not_known(controller: int, harness: Harness) -> None:
    response = harness.ask(UnregisterControllerRequest(controller_id=controller), 0)
    assert response.error_code == ErrorCode.CONTROLLER_ID_NOT_REGISTERED
    assert response.error_message == f"Controller ID {controller} is not currently registered."


RAISE: Final = 1


LOWER: Final = 2


LOWER_AT_ANY_PRICE: Final = 3


FIRST_WORDS: Final = "The update failed for all features since the following feature had an error: "


def update(harness: Harness, *changes: tuple[str, int, int], version: int = 2, validate_only: bool = False) -> Any:
    keys = [FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind) for name, level, kind in changes]
    return harness.ask(UpdateFeaturesRequest(feature_updates=keys, validate_only=validate_only), version)


def refusal(response: Any) -> str:
    """Return the message of a failed update."""
    assert response.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert response.results == []
    message: str = response.error_message
    assert message.startswith(FIRST_WORDS)
    return message.removeprefix(FIRST_WORDS)


@pytest.mark.parametrize("version", [1, 2])
def test_a_level_is_lowered_and_raised_again(harness: Harness, version: int) -> None:
    for level, kind in ((0, LOWER), (1, RAISE), (0, LOWER_AT_ANY_PRICE)):
        response = update(harness, ("group.version", level, kind), version=version)
        assert (response.error_code, response.error_message) == (0, None)
        results = [(result.feature, result.error_code, result.error_message) for result in response.results]
        assert results == [("group.version", 0, "NONE")] * (version < 2)
        assert harness.core.features.level("group.version") == level
    assert harness.core.features.epoch == 4


def test_a_level_outlives_the_run(harness: Harness) -> None:
    update(harness, ("group.version", 0, LOWER))
    harness.restart()
    assert harness.core.features.level("group.version") == 0


def test_a_question_changes_nothing(harness: Harness) -> None:
    assert update(harness, ("group.version", 0, LOWER), validate_only=True).error_code == 0
    assert harness.core.features.level("group.version") == 1


def test_a_level_that_is_in_force_is_no_change(harness: Harness) -> None:
    assert update(harness, ("group.version", 1, RAISE), ("kraft.version", 0, RAISE)).error_code == 0
    assert harness.core.features.epoch == 1


def test_the_last_update_of_a_feature_counts(harness: Harness) -> None:
    response = update(harness, ("group.version", 2, RAISE), ("group.version", 0, LOWER), version=1)
    assert [(result.feature, result.error_code) for result in response.results] == [("group.version", 0)] * 2
    assert harness.core.features.level("group.version") == 0


def test_all_features_change_or_none_does(harness: Harness) -> None:
    why = refusal(update(harness, ("group.version", 0, LOWER), ("nope", 1, RAISE)))
    assert why == "Invalid update version 1 for feature nope. Local controller 1 does not support this feature."
    assert harness.core.features.level("group.version") == 1


@pytest.mark.parametrize(
    ("level", "kind", "reason"),
    [
        (-1, LOWER, "A feature version cannot be less than 0."),
        (2, RAISE, "Local controller 1 only supports versions 0-1"),
        (
            0,
            RAISE,
            (
                "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe "
                "downgrade."
            ),
        ),
        (0, 0, "The controller does not support the given upgrade type."),
        (0, 9, "The controller does not support the given upgrade type."),
    ],
)
def test_a_change_that_cannot_be_is_refused(harness: Harness, level: int, kind: int, reason: str) -> None:
    why = refusal(update(harness, ("group.version", level, kind)))
    assert why == f"Invalid update version {level} for feature group.version. {reason}"


def test_an_unknown_feature_cannot_even_be_off(harness: Harness) -> None:
    why = refusal(update(harness, ("nope", 0, LOWER)))
    assert why == "Invalid update version 0 for feature nope. Feature nope not found."


def test_a_raise_is_not_called_lowering(harness: Harness) -> None:
    update(harness, ("group.version", 0, LOWER))
    why = refusal(update(harness, ("group.version", 1, LOWER)))
    assert why.endswith("Can't downgrade to a newer version.")


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (LOWER, "Refusing to perform the requested downgrade because it might delete metadata information."),
        (LOWER_AT_ANY_PRICE, "Unsafe metadata downgrade is not supported in this version."),
    ],
)
def test_metadata_is_not_lowered_where_that_would_lose_something(harness: Harness, kind: int, reason: str) -> None:
    why = refusal(update(harness, ("metadata.version", 29, kind)))
    assert why == f"Unsupported metadata.version downgrade from 33 to 29. {reason}"


def test_the_version_of_raft_is_raised_for_good(harness: Harness) -> None:
    assert update(harness, ("kraft.version", 0, LOWER)).error_code == 0
    assert update(harness, ("kraft.version", 1, RAISE)).error_code == 0
    assert update(harness, ("kraft.version", 1, LOWER)).error_code == 0
    why = refusal(update(harness, ("kraft.version", 0, LOWER)))
    assert why == "Invalid update version 0 for feature kraft.version. Can't downgrade the version of this feature."


def test_version_0_only_raises_whatever_it_allows(harness: Harness) -> None:
    key = FeatureUpdateKey(feature="group.version", max_version_level=0, allow_downgrade=True)
    why = refusal(harness.ask(UpdateFeaturesRequest(feature_updates=[key]), 0))
    assert "Can't downgrade" in why


def test_a_disk_that_refuses_leaves_the_levels_as_they_were(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(28, os.strerror(28), "minibroker-cluster.json")

    monkeypatch.setattr(harness.core.metadata, "write", refuse)
    response = update(harness, ("group.version", 0, LOWER))
    assert response.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert (harness.core.features.level("group.version"), harness.core.features.epoch) == (1, 1)
