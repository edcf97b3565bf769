"""A broker that emulates a release, beside a running Kafka of that release: its configuration keys and its errors."""

import uuid
from collections.abc import Iterator
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

from minibroker.config.releases import RELEASES, release_name
from minibroker_protocol.coordinator_records import ConsumerProtocolAssignment, encode_versioned
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.api_versions import ApiVersionsRequest
from minibroker_protocol.messages.cluster import FeatureUpdateKey, UpdateFeaturesRequest
from minibroker_protocol.messages.consumer_group import ConsumerGroupDescribeRequest, ConsumerGroupHeartbeatRequest
from minibroker_protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from minibroker_protocol.messages.groups import DescribeGroupsRequest, ListGroupsRequest
from minibroker_protocol.messages.share_group import ShareGroupDescribeRequest, ShareGroupHeartbeatRequest
from minibroker_protocol.messages.streams_group import StreamsGroupDescribeRequest
from minibroker_protocol.messages.topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    DeleteTopicsRequest,
)
from tests.broker.config.configs import BROKER, DELETE, GROUP, METRICS, SET, TOPIC, describe_request
from tests.broker.coordinators.groups.member_requests import join_request, subscription, sync_request
from tests.broker.coordinators.groups.offset_requests import commit, fetch
from tests.broker.harness import frame_of
from tests.kafka import jars
from tests.kafka.fixtures import or_skip
from tests.kafka.release_keys import FILE, lines_of, rows_of
from tests.kafka.release_pairs import Release, kafka_of, run_beside
from tests.kafka.test_configs import DEFAULT_SOURCE, NODE, Change, Side, without_words
from tests.patience import eventually

_OTHERS: Final = ("3.7.2", "3.8.1", "4.0.1", "4.1.1", "4.2.0", "4.3.1")
_VERSIONS: Final = [
    jars.VERSION,
    *(pytest.param(version, marks=pytest.mark.torture) for version in (jars.NEWEST, *_OTHERS)),
]
_OTHERWISE_HERE: Final = {
    "group.consumer.migration.policy": "bidirectional",
    "group.coordinator.rebalance.protocols": "classic,consumer,streams",
    "group.initial.rebalance.delay.ms": "0",
    "group.share.partition.max.record.locks": "2000",
}
"""Keys whose defaults are minibroker's own, in all releases or in those before Kafka 4; docs/releases.md names them."""

_REQUIRED: Final = frozenset({"node.id", "process.roles"})
"""Keys without a default, which minibroker does not ask for."""


@pytest.fixture(scope="module", params=_VERSIONS)
def release(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Release]:
    """Both brokers, whose coordinators are ready."""
    with closing(kafka_of(request.param, tmp_path_factory.mktemp("kafka"))) as kafka:
        kafka.start()
        yield from run_beside(request.param, kafka)


def _assigned(user_data: bytes | None = None) -> bytes:
    return encode_versioned(ConsumerProtocolAssignment(assigned_partitions=[], user_data=user_data), 1)


def test_a_broker_has_exactly_the_keys_of_the_release(release: Release) -> None:
    ours, theirs = (side.describe(BROKER, NODE) for side in (release.ours, release.theirs))
    set_there = {name for name, row in theirs.items() if row.config_source != DEFAULT_SOURCE}
    assert ours.keys() - theirs.keys() == set()
    assert theirs.keys() - ours.keys() <= set_there
    for name, row in ours.items():
        there = theirs[name]
        facts = (row.config_type, row.is_sensitive, row.read_only, bool(row.documentation))
        assert facts == (there.config_type, there.is_sensitive, there.read_only, bool(there.documentation)), name
        if name not in _REQUIRED:
            assert _default(row) in {_default(there), _OTHERWISE_HERE.get(name, _default(there))}, name


@cache
def _versions(side: Side) -> set[tuple[int, int]]:
    answer = side.client.ask(ApiVersionsRequest(client_software_name="a", client_software_version="1"), 3)
    ranges = {each.api_key: range(each.min_version, each.max_version + 1) for each in answer.api_keys}
    return {(key, version) for key, versions in ranges.items() for version in versions}


def _default(row: Any) -> str | None:
    return next((each.value for each in row.synonyms if each.source == DEFAULT_SOURCE), None)


def test_a_topic_has_exactly_the_keys_of_the_release(release: Release) -> None:
    name = _create(release)
    ours, theirs = (
        {key: without_words(row) for key, row in side.describe(TOPIC, name).items()}
        for side in (release.ours, release.theirs)
    )
    assert ours == theirs


def test_a_created_topic_is_answered_with_the_keys_of_the_release(release: Release) -> None:
    sizes: dict[str, str] = {"retention.ms": "5000"}
    if release.is_since("4.1"):
        sizes["internal.segment.bytes"] = "4096"
    answers = [_created(side, f"made-{uuid.uuid4().hex[:8]}", sizes) for side in (release.ours, release.theirs)]
    assert answers[0] == answers[1]


@pytest.mark.parametrize(
    "configs",
    [
        {"segment.bytes": "14"},
        {"segment.bytes": "1048575"},
        {"segment.bytes": "13"},
        {"internal.segment.bytes": "100"},
        {"message.format.version": "2.0"},
        {"message.timestamp.difference.max.ms": "5"},
        {"cleanup.policy": "delete,delete"},
        {"cleanup.policy": ""},
        {"remote.copy.lag.ms": "5"},
    ],
    ids=str,
)
def test_configurations_of_topics_are_allowed_as_by_the_release(release: Release, configs: dict[str, str]) -> None:
    name = f"tried-{uuid.uuid4().hex[:8]}"
    ours, theirs = (_created(side, name, configs)[:2] for side in (release.ours, release.theirs))
    assert ours == theirs


def _created(side: Side, name: str, configs: dict[str, str]) -> tuple[int, str | None, list[Any]]:
    topic = CreatableTopic(
        name=name,
        num_partitions=1,
        replication_factor=1,
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
    )
    (made,) = side.client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=20_000), 7).topics
    rows = [(row.name, row.value, row.config_source, row.is_sensitive, row.read_only) for row in made.configs or ()]
    return made.error_code, made.error_message, sorted(rows)


def _create(release: Release, **configs: str) -> str:
    """Create a topic on both sides."""
    name = f"topic-{uuid.uuid4().hex[:8]}"
    for side in (release.ours, release.theirs):
        assert _created(side, name, {key.replace("_", "."): value for key, value in configs.items()})[0] == 0
        eventually(lambda side=side: side.refusal(TOPIC, name)[0] == 0)  # type: ignore[misc] # mypy cannot infer a lambda's default
    return name


@pytest.mark.parametrize(("kind", "name"), [(GROUP, "g"), (METRICS, "m"), (64, "x")])
def test_other_resources_have_the_keys_of_the_release(release: Release, kind: int, name: str) -> None:
    ours, theirs = (_described(side, kind, name) for side in (release.ours, release.theirs))
    assert ours == theirs


def _described(side: Side, kind: int, name: str) -> tuple[int, dict[str, Any]]:
    request = describe_request(kind, name, include_synonyms=True, include_documentation=True)
    (result,) = side.client.ask(request, 4).results
    return result.error_code, {row.name: without_words(row) for row in result.configs}


def test_the_authorized_operations_of_a_group_are_those_of_the_release(release: Release) -> None:
    ours, theirs = (_operations(side) for side in (release.ours, release.theirs))
    assert ours == theirs


def _operations(side: Side) -> int:
    commit(side.client, {(_topic_of(side), 0): 1}, "operated")
    request = DescribeGroupsRequest(groups=["operated"], include_authorized_operations=True)
    (group,) = side.client.ask(request, 5).groups
    assert group.error_code == 0
    return int(group.authorized_operations)


def _topic_of(side: Side, configs: dict[str, str] | None = None) -> str:
    name = f"topic-{uuid.uuid4().hex[:8]}"
    assert _created(side, name, configs or {})[0] == 0
    eventually(lambda: side.refusal(TOPIC, name)[0] == 0)
    return name


@pytest.mark.parametrize("version", [2, 7, 8, 9])
def test_a_commit_to_an_unknown_group_is_refused_as_by_the_release(release: Release, version: int) -> None:
    ours, theirs = (
        set(commit(side.client, {(_topic_of(side), 0): 1}, "nobody", version=version, **_MEMBER).values())
        for side in (release.ours, release.theirs)
    )
    assert ours == theirs


@pytest.mark.parametrize("version", [4, 9, 10, 12])
def test_a_topic_of_zstd_is_fetched_as_from_the_release(release: Release, version: int) -> None:
    ours, theirs = (_fetched_zstd(side, version) for side in (release.ours, release.theirs))
    assert ours == theirs


def _fetched_zstd(side: Side, version: int) -> int:
    name = _topic_of(side, {"compression.type": "zstd"})
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[FetchTopic(topic=name, partitions=[partition])])
    codes: list[int] = []

    def is_led() -> bool:
        (topic,) = side.client.ask(request, version).responses
        codes[:] = [topic.partitions[0].error_code]
        return codes not in ([ErrorCode.NOT_LEADER_OR_FOLLOWER], [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION])

    eventually(is_led)
    return codes[0]


@pytest.mark.parametrize(
    "change",
    [
        (NODE, (SET, "min.insync.replicas", "2")),
        ("", (DELETE, "min.insync.replicas", None)),
        ("", (SET, "min.insync.replicas", "2")),
        ("", (SET, "min.insync.replicas", "1")),
        (NODE, (SET, "log.segment.bytes", "2000")),
        (NODE, (SET, "zookeeper.connect", "x")),
        (NODE, (SET, "group.consumer.assignment.interval.ms", "2000")),
    ],
    ids=str,
)
def test_brokers_are_altered_as_in_the_release(release: Release, change: tuple[str, Change]) -> None:
    name, (operation, key, value) = change
    ours, theirs = (
        side.change(BROKER, name, (operation, key, value), validate_only=True)
        for side in (release.ours, release.theirs)
    )
    assert ours == theirs


def _since_4_0(release: Release) -> None:
    if not release.is_since("4.0"):
        pytest.skip("the release has no consumer groups by default")


@pytest.mark.parametrize(
    ("protocol_type", "metadata", "assignment"),
    [
        ("consumer", subscription("t"), b""),
        ("consumer", subscription("t"), _assigned()),
        ("consumer", subscription("t"), _assigned(b"")),
        ("consumer", subscription("t"), _assigned(b"x")),
        ("consumer", subscription("t"), b"odd"),
        ("consumer", b"odd", b""),
        ("connect", b"odd", b""),
    ],
)
def test_a_classic_group_is_upgraded_as_by_the_release(
    release: Release, protocol_type: str, metadata: bytes, assignment: bytes
) -> None:
    _since_4_0(release)
    ours, theirs = (_upgraded(side, protocol_type, metadata, assignment) for side in (release.ours, release.theirs))
    assert ours == theirs


def _upgraded(side: Side, protocol_type: str, metadata: bytes, assignment: bytes) -> tuple[int, str | None, str]:
    """Have a member of the consumer protocol join a classic group; the answer, and the kind of group there is then."""
    group_id, client, protocols = f"upgraded-{uuid.uuid4().hex[:8]}", side.client, (("range", metadata),)
    member = client.ask(join_request(group_id, "", protocols, protocol_type=protocol_type), 4).member_id
    joined = client.ask(join_request(group_id, member, protocols, protocol_type=protocol_type), 4)
    given = {member: assignment}
    synced = client.ask(sync_request(group_id, member, joined.generation_id, given), 2)
    assert (joined.error_code, synced.error_code) == (0, 0)
    answer = client.ask(_first_heartbeat(group_id), 0)
    request = ListGroupsRequest(states_filter=[], types_filter=[])
    (kind,) = (each.group_type for each in client.ask(request, 5).groups if each.group_id == group_id)
    return answer.error_code, _without(group_id, answer.error_message), kind


def _first_heartbeat(group_id: str) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        group_id=group_id,
        member_id=str(uuid.uuid4()),
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )


def _without(group_id: str, message: str | None) -> str | None:
    return None if message is None else message.replace(group_id, "G")


def test_joins_to_a_consumer_group_are_refused_as_by_the_release(release: Release) -> None:
    _since_4_0(release)
    ours, theirs = (_joins_to_consumers(side) for side in (release.ours, release.theirs))
    assert ours == theirs


def _joins_to_consumers(side: Side) -> list[tuple[int, int]]:
    """Return the errors of classic members in a consumer group, and the lengths of the member ids in the answers."""
    group_id, client = f"consumers-{uuid.uuid4().hex[:8]}", side.client
    assert client.ask(_first_heartbeat(group_id), 0).error_code == 0
    named = (
        join_request(group_id, protocol_type="connect"),
        join_request(group_id, "who", protocol_type="connect"),
        join_request(group_id, "", ()),
        join_request(group_id, "", (("range", b""),)),
        join_request(group_id, "who", (("range", b""),)),
        join_request(group_id),
        join_request(group_id, "who", session_ms=1),
    )
    answers = [client.ask(request, version) for request in named for version in (3, 5)]
    answers.append(client.ask(join_request(group_id, "who", instance="i"), 5))
    return [(answer.error_code, len(answer.member_id)) for answer in answers]


@pytest.mark.torture
@pytest.mark.parametrize("version", ["4.0.1", "4.1.1", "4.2.0", "4.3.1", "4.4.0"])
@pytest.mark.parametrize(
    "config",
    [
        {"group.consumer.migration.policy": "disabled"},
        {"group.consumer.migration.policy": "DOWNGRADE"},
        {"group.coordinator.rebalance.protocols": "classic"},
        {"group.coordinator.rebalance.protocols": "classic,consumer"},
        {"group.consumer.max.size": "1", "group.share.max.size": "2"},
    ],
    ids=str,
)
def test_groups_are_served_as_the_configuration_of_the_release_says(
    tmp_path: Path, version: str, config: dict[str, str]
) -> None:
    with closing(kafka_of(version, tmp_path, **config)) as kafka:
        kafka.start()
        for release in run_beside(version, kafka, config):
            ours, theirs = (_served(side) for side in (release.ours, release.theirs))
            assert ours == theirs


@pytest.mark.parametrize("feature", ["group.version", "streams.version", "share.version"])
def test_a_feature_that_is_off_is_answered_as_by_the_release(release: Release, feature: str) -> None:
    features = release.ours.client.ask(ApiVersionsRequest(client_software_name="a", client_software_version="1"), 3)
    if feature not in {each.name for each in features.finalized_features}:
        pytest.skip("the release has no such feature, or it is off")
    level = next(each.max_version_level for each in features.finalized_features if each.name == feature)
    answers: list[Any] = []
    for side in (release.ours, release.theirs):
        _finalize(side, feature, 0)
        answers.append(_served(side))
        _finalize(side, feature, level)
    assert answers[0] == answers[1]


_RAISE: Final = 1
_LOWER: Final = 2
_LOWER_AT_ANY_PRICE: Final = 3


@pytest.mark.parametrize("version", [0, 1, 2])
def test_updates_of_features_are_answered_as_by_the_release(release: Release, version: int) -> None:
    if (57, version) not in _versions(release.ours):
        pytest.skip("the release has no such version")
    before = _levels(release.theirs)
    metadata = before["metadata.version"]
    nothing = ("nope", 1, _RAISE)
    for updates in (
        [("metadata.version", metadata, _RAISE), nothing],
        [("metadata.version", metadata + 1, _RAISE), ("zope", 1, _RAISE), nothing],
        [("metadata.version", 7, _LOWER)],
        [("metadata.version", 7, _LOWER_AT_ANY_PRICE)],
        [("metadata.version", 3, _LOWER_AT_ANY_PRICE)],
        [("metadata.version", 0, _LOWER), ("metadata.version", -1, _LOWER)],
        [("metadata.version", metadata, 0)],
        [("kraft.version", 0, _RAISE), ("nope", 0, _LOWER)],
        [("nope", -1, _RAISE)],
        [nothing, ("nope", 2, _RAISE)],
        [("group.version", 2, _RAISE), ("group.version", 0, _LOWER), nothing],
        [("group.version", 0, _LOWER), ("transaction.version", 1, _LOWER)],
        [("group.version", 1, _RAISE), ("transaction.version", 2, _RAISE)],
        [],
    ):
        ours, theirs = (_updated(side, updates, version) for side in (release.ours, release.theirs))
        assert ours == theirs, updates
    expected = _levels(release.ours)
    eventually(lambda: _levels(release.theirs) == expected)
    assert expected == before


def _updated(side: Side, updates: list[tuple[str, int, int]], version: int) -> tuple[Any, ...]:
    keys = [
        FeatureUpdateKey(
            feature=name,
            max_version_level=level,
            allow_downgrade=version == 0 and kind != _RAISE,
            upgrade_type=kind if version else _RAISE,
        )
        for name, level, kind in updates
    ]
    answer = side.client.ask(UpdateFeaturesRequest(timeout_ms=20_000, feature_updates=keys), version)
    results = [(result.feature, result.error_code, result.error_message) for result in answer.results]
    return answer.error_code, answer.error_message, results


def _levels(side: Side) -> dict[str, int]:
    request = ApiVersionsRequest(client_software_name="a", client_software_version="1")
    return {each.name: each.max_version_level for each in side.client.ask(request, 3).finalized_features}


def _finalize(side: Side, feature: str, level: int) -> None:
    update = FeatureUpdateKey(feature=feature, max_version_level=level, upgrade_type=1 if level else 2)
    assert side.client.ask(UpdateFeaturesRequest(timeout_ms=20_000, feature_updates=[update]), 1).error_code == 0
    eventually(lambda: _levels(side).get(feature, 0) == level)


def _served(side: Side) -> dict[str, Any]:
    """Return the answers to requests of the newer protocols, as far as the release has them."""
    group_id, client = f"served-{uuid.uuid4().hex[:8]}", side.client
    answers: dict[str, Any] = {}

    def ask(name: str, request: Any, version: int) -> None:
        if (int.from_bytes(frame_of(request, version)[:2]), version) in _versions(side):
            answers[name] = client.ask(request, version)

    ask("consumer heartbeat", _first_heartbeat(group_id), 0)
    ask("second member", _first_heartbeat(group_id), 0)
    ask("consumer describe", ConsumerGroupDescribeRequest(group_ids=[group_id], include_authorized_operations=False), 0)
    ask("classic join", join_request(group_id), 5)
    ask("classic join again", join_request(group_id, "who"), 5)
    for member in ("a", "b", "c"):
        member_id = str(uuid.uuid4())
        heartbeat = ShareGroupHeartbeatRequest(
            group_id=f"share-{group_id}", member_id=member_id, member_epoch=0, subscribed_topic_names=["t"]
        )
        ask(f"share heartbeat {member}", heartbeat, 1)
    share_groups = [f"share-{group_id}"]
    ask("share describe", ShareGroupDescribeRequest(group_ids=share_groups, include_authorized_operations=False), 1)
    ask("streams describe", StreamsGroupDescribeRequest(group_ids=[group_id], include_authorized_operations=False), 0)
    return {name: _codes(answer) for name, answer in answers.items()}


def _codes(answer: Any) -> Any:
    if hasattr(answer, "groups"):
        return [group.error_code for group in answer.groups]
    return answer.error_code, bool(answer.member_id)


_MEMBER: Final[dict[str, Any]] = {"member_id": "m", "generation_id_or_member_epoch": 5}


def test_a_group_whose_topics_were_deleted_is_described_as_by_the_release(release: Release) -> None:
    ours, theirs = (_emptied(side) for side in (release.ours, release.theirs))
    assert ours == theirs


def _emptied(side: Side) -> tuple[int, str]:
    name, group_id = _topic_of(side), f"emptied-{uuid.uuid4().hex[:8]}"
    commit(side.client, {(name, 0): 1}, group_id)
    side.client.ask(DeleteTopicsRequest(topic_names=[name], timeout_ms=20_000), 5)
    eventually(lambda: fetch(side.client, (name, 0), group_id=group_id)[name, 0][0] == -1)
    (group,) = side.client.ask(DescribeGroupsRequest(groups=[group_id]), 5).groups
    return group.error_code, group.group_state


def test_a_refused_join_names_the_member_as_the_release_does(release: Release) -> None:
    ours, theirs = (_refused_joins(side) for side in (release.ours, release.theirs))
    assert ours == theirs


def _refused_joins(side: Side) -> list[tuple[int, bool]]:
    """Return the error and whether the member id of the request is echoed, for joins that a group refuses."""
    group_id, client = f"joined-{uuid.uuid4().hex[:8]}", side.client
    member = client.ask(join_request(group_id), 4).member_id
    joined = client.ask(join_request(group_id, member), 4)
    assert joined.error_code == 0
    refused: list[tuple[int, bool]] = []
    for request in (
        join_request(group_id, "", (("other", b""),)),
        join_request(group_id, member, (("other", b""),)),
        join_request(group_id, "nobody"),
        join_request(group_id, "", protocol_type="connect"),
        join_request(group_id, "", session_ms=1),
        join_request(group_id, "who", session_ms=1),
        join_request("", "who"),
    ):
        for version in (3, 5):
            answer = client.ask(request, version)
            refused.append((answer.error_code, bool(answer.member_id) and answer.member_id == request.member_id))
    return refused


@pytest.mark.parametrize("version", _VERSIONS)
def test_the_table_of_keys_is_what_the_jars_of_a_release_say(version: str) -> None:
    name = release_name(version)
    assert name is not None
    rows = [(line + "\t\t").split("\t")[:8] for line in FILE.read_text(encoding="utf-8").splitlines()]
    at = RELEASES.index(name)
    ours = {(row[0], row[1], *row[4:]) for row in rows if RELEASES.index(row[2]) <= at <= RELEASES.index(row[3])}
    theirs = rows_of(lines_of([or_skip(lambda: jars.find(version=version))]))
    assert ours == {(row[0], row[1], *row[4:]) for row in ((line + "\t\t").split("\t")[:8] for line in theirs)}
