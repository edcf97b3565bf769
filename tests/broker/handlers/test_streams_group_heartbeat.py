from typing import Any

import pytest

from minibroker.cluster.releases import release
from minibroker.config.broker import RunTime
from minibroker.config.keys import ConfigResourceType
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.groups import DeleteGroupsRequest
from minibroker_protocol.messages.streams_group import Endpoint, KeyValue
from tests.broker.handlers.streams_group_requests import (
    DELAY_MS,
    StreamsGroupClient,
    counting,
    listed,
    named,
    offsets_of,
    statuses,
    subtopology,
    topic,
    topology,
)
from tests.broker.harness import Configured, Harness
from tests.broker.logs.world import topic_of


@pytest.fixture
def client(harness: Harness) -> StreamsGroupClient:
    return StreamsGroupClient(harness)


def set_standbys(harness: Harness, replicas: int) -> None:
    altered = {"streams.num.standby.replicas": str(replicas)}
    harness.core.configs.put_all({(ConfigResourceType.GROUP, "g"): altered})


def test_before_4_3_a_group_assigns_again_without_delay(configured: Configured) -> None:
    config = {"minibroker.emulate": "4.2", "group.streams.initial.rebalance.delay.ms": "0"}
    client = StreamsGroupClient(configured(config))
    assert [client.beat(member=member).member_epoch for member in ("a", "b")] == [2, 3]


@pytest.fixture
def early_client(configured: Configured) -> StreamsGroupClient:
    """A client of a broker that emulates Kafka 4.1 with its unstable streams groups."""
    config = {"minibroker.emulate": "4.1", "unstable.api.versions.enable": "true"}
    harness = configured({**config, "unstable.feature.versions.enable": "true"})
    harness.core.features.finalize({"streams.version": 1})
    return StreamsGroupClient(harness)


def test_before_4_2_a_group_assigns_when_its_first_member_joins(early_client: StreamsGroupClient) -> None:
    answer = early_client.beat()
    assert (answer.member_epoch, named(answer.active_tasks), statuses(answer)) == (2, {"0": [0]}, [])


@pytest.mark.parametrize(
    ("missing", "code", "detail"),
    [
        ({"sources": [f"s{number}" for number in range(5)]}, 1, "Source topics s0, s1, s2, s3, s4 are missing."),
        ({"changelogs": [topic("c")]}, 3, "Internal topics are missing: [c]"),
    ],
)
def test_before_4_2_a_status_names_all_missing_topics(
    early_client: StreamsGroupClient, missing: dict[str, Any], code: int, detail: str
) -> None:
    answer = early_client.beat(topology=topology(subtopology(**missing)))
    assert (code, detail) in [(number, text.partition(";")[0]) for number, text in statuses(answer)]


def test_a_member_that_does_not_give_up_tasks_in_time_is_removed(harness: Harness, client: StreamsGroupClient) -> None:
    client.settle(["a"], topology=counting())
    client.step("b", topology=counting())
    harness.clock.advance(1_000)
    client.step("b", topology=counting())
    owned, epoch = client.tasks["a"][0], client.epochs["a"]
    client.beat("a", epoch, owned=owned)
    harness.clock.advance(1_000)
    assert client.beat("a", epoch, owned=owned).error_code == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.fixture
def static(harness: Harness) -> StreamsGroupClient:
    """A group with the static member "a" and instance id "i", without a delay before the first assignment."""
    harness.core.configs.put_all({(ConfigResourceType.GROUP, "g"): {"streams.initial.rebalance.delay.ms": "0"}})
    client = StreamsGroupClient(harness)
    client.settle(["a"], topology=counting(), instance_id="i")
    return client


def leave_for_a_while(client: StreamsGroupClient, member: str, instance_id: str) -> None:
    answer = client.beat(member, -2, instance_id=instance_id)
    assert (answer.error_code, answer.member_epoch, statuses(answer)) == (0, -2, [])


def test_a_static_member_has_its_tasks_when_it_comes_back(harness: Harness, static: StreamsGroupClient) -> None:
    leave_for_a_while(static, "a", "i")
    before = static.describe()
    assert [(member.member_id, member.instance_id, member.member_epoch) for member in before.members] == [
        ("a", "i", -2)
    ]
    harness.clock.advance(44_000)
    answer = static.beat("a2", 0, topology=counting(), instance_id="i", process_id="p-a")
    assert (answer.member_epoch, named(answer.active_tasks)) == (before.group_epoch, static.tasks["a"][0])
    after = static.describe()
    assert [(member.member_id, member.instance_id) for member in after.members] == [("a2", "i")]
    assert after.group_epoch == before.group_epoch
    harness.clock.advance(44_000)
    assert static.describe().members != []
    harness.clock.advance(1_000)
    assert static.describe().members == []


def test_a_full_group_lets_a_static_member_back(harness: Harness, static: StreamsGroupClient) -> None:
    harness.core.config.adopt_values_of(harness.core.config.altered(RunTime({}, {}), {"group.streams.max.size": "1"}))
    leave_for_a_while(static, "a", "i")
    assert static.beat("b", 0, topology=counting()).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert static.beat("a2", 0, topology=counting(), instance_id="i").error_code == 0


@pytest.mark.parametrize("which", [0, 1])
def test_who_has_the_state_of_a_task_becomes_its_standby(
    harness: Harness, client: StreamsGroupClient, which: int
) -> None:
    client.settle("abcd", topology=counting())
    knows = [name for name in "abcd" if client.tasks[name] == ({}, {})][which]
    client.beat(knows, client.epochs[knows], task_offsets=offsets_of(("1", 0, 100)))
    set_standbys(harness, 1)
    client.settle("abcd")
    assert [name for name in "abcd" if "1" in client.tasks[name][1]] == [knows]


def test_a_member_hears_of_client_tags_that_it_lacks(harness: Harness, client: StreamsGroupClient) -> None:
    tags = {"streams.rack.aware.assignment.tags": "zone, rack, row"}
    harness.core.configs.put_all({(ConfigResourceType.GROUP, "g"): tags})
    client.settle(["a"], client_tags=[KeyValue(key="rack", value="r")])
    epoch = client.epochs["a"]
    detail = (
        "Missing required client tags for rack-aware standby assignment: [zone, row]. Configure them via "
        "'client.tag.<tagKey>' in your Streams config."
    )
    assert statuses(client.beat("a", epoch, version=1)) == [(6, detail)]
    assert statuses(client.beat("a", epoch, version=0)) == []


def test_version_1_has_the_settings_of_the_group(harness: Harness, client: StreamsGroupClient) -> None:
    client.settle(["a"])
    settings = {"streams.task.offset.interval.ms": "20000", "streams.acceptable.recovery.lag": str(2**40)}
    answer = client.beat("a", client.epochs["a"], version=1)
    assert (answer.task_offset_interval_ms, answer.acceptable_recovery_lag) == (60_000, 10_000)
    harness.core.configs.put_all({(ConfigResourceType.GROUP, "g"): settings})
    answer = client.beat("a", client.epochs["a"], version=1)
    assert (answer.task_offset_interval_ms, answer.acceptable_recovery_lag) == (20_000, 2**40)
    assert not answer.topology_description_required


@pytest.mark.parametrize(
    "fields",
    [
        {"instance_id": "i"},
        {"task_offsets": []},
        {"task_end_offsets": []},
        {"warmup_tasks": listed({"0": [0]}), "epoch": 1},
    ],
)
def test_a_broker_that_emulates_an_earlier_release_knows_less(harness: Harness, fields: dict[str, Any]) -> None:
    harness.services.release = release("4.3")
    client = StreamsGroupClient(harness)
    assert client.beat(**fields).error_code == ErrorCode.INVALID_REQUEST
    assert client.beat().task_offset_interval_ms == 0
    harness.services.release = release("4.4")
    joining: dict[str, Any] = {**fields, "epoch": 0, "warmup_tasks": []}
    assert client.beat(member="b", owned={}, **joining).error_code == 0


def test_a_change_of_the_settings_makes_a_new_assignment(harness: Harness, client: StreamsGroupClient) -> None:
    client.settle(["a", "b"], topology=counting())
    before = client.describe().group_epoch
    set_standbys(harness, 1)
    client.settle(["a", "b"])
    assert client.describe().group_epoch == before + 1
    assert any(standby for _, standby in client.tasks.values())


def test_statuses_say_why_there_are_no_tasks(harness: Harness, client: StreamsGroupClient) -> None:
    missing = topology(subtopology("0", ["nowhere"]))
    client.beat(topology=missing)
    harness.clock.advance(DELAY_MS)
    answer = client.beat(topology=missing)
    assert (named(answer.active_tasks), statuses(answer)) == ({}, [(1, "Source topics nowhere are missing.")])
    assert client.describe().group_state == "NotReady"
    fixed = topology(subtopology("0", ["t"], repartition=[topic("r", 2)], joined=[([0], [0])]))
    answer = client.beat(group_id="h", topology=fixed)
    detail = (
        "Number of partitions [2] of repartition topic [r] doesn't match number of partitions [1] of the source topic."
    )
    assert (2, detail) in statuses(answer)


def test_a_member_with_an_older_topology_is_told_so(client: StreamsGroupClient) -> None:
    client.settle(["a"], topology=topology(epoch=1))
    answer = client.step("b", topology=topology(epoch=0))
    assert (0, "The member's topology epoch 0 is behind the group's topology epoch 1.") in statuses(answer)
    assert client.beat("c", topology=topology(epoch=2)).error_code == ErrorCode.INVALID_REQUEST


def test_a_member_stops_the_whole_application(client: StreamsGroupClient) -> None:
    client.settle(["a", "b"])
    client.step("a", shutdown_application=True)
    (status,) = statuses(client.step("b"))
    assert status[0] == 4
    assert status[1].startswith("Streams group member a encountered a fatal error")
    for member in ("a", "b"):
        client.beat(member, -1)
    client.epochs.clear()
    client.tasks.clear()
    client.settle(["a"])
    assert statuses(client.step("a")) == []


def test_members_with_endpoints_hear_of_each_others_partitions(client: StreamsGroupClient) -> None:
    client.settle(["a"], user_endpoint=Endpoint(host="there", port=80))
    answer = client.beat("a", client.epochs["a"])
    (each,) = answer.partitions_by_user_endpoint
    assert (each.user_endpoint.host, each.user_endpoint.port) == ("there", 80)
    assert [(place.topic, place.partitions) for place in each.active_partitions] == [("t", [0])]
    assert (
        client.beat(
            "a", client.epochs["a"], endpoint_epoch=answer.endpoint_information_epoch
        ).partitions_by_user_endpoint
        is None
    )


def test_an_epoch_that_is_not_the_members_is_fenced(client: StreamsGroupClient) -> None:
    client.settle(["a"])
    epoch = client.epochs["a"]
    assert client.beat(epoch=epoch + 1).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert client.beat(epoch=epoch - 1).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert client.beat(epoch=epoch, owned={"7": [0]}).error_code == ErrorCode.INVALID_REQUEST
    assert client.beat(epoch=epoch, owned={"0": [1]}).error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"member": ""}, ErrorCode.INVALID_REQUEST),
        ({"group_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"rack_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"instance_id": " "}, ErrorCode.INVALID_REQUEST),
        ({"epoch": -2}, ErrorCode.INVALID_REQUEST),
        ({"epoch": -3}, ErrorCode.INVALID_REQUEST),
        ({"topology": None}, ErrorCode.INVALID_REQUEST),
        ({"rebalance_timeout_ms": -1}, ErrorCode.INVALID_REQUEST),
        ({"owned": {"0": [0]}}, ErrorCode.INVALID_REQUEST),
        ({"epoch": 1, "topology": topology()}, ErrorCode.INVALID_REQUEST),
        ({"epoch": 1, "active_tasks": []}, ErrorCode.INVALID_REQUEST),
        ({"warmup_tasks": listed({"0": [0]})}, ErrorCode.INVALID_REQUEST),
        ({"task_offsets": offsets_of(("0", 0, 1), ("0", 0, 1))}, ErrorCode.INVALID_REQUEST),
        ({"task_end_offsets": offsets_of(("0", 0, 1), ("0", 0, 2))}, ErrorCode.INVALID_REQUEST),
        ({"topology": topology(subtopology(regex=["t.*"]))}, ErrorCode.INVALID_REQUEST),
        ({"topology": topology(subtopology(sources=["__consumer_offsets"]))}, ErrorCode.STREAMS_INVALID_TOPOLOGY),
        ({"topology": topology(subtopology(sources=["a b"]))}, ErrorCode.STREAMS_INVALID_TOPOLOGY),
        ({"topology": topology(subtopology(changelogs=[topic("c", 3)]))}, ErrorCode.STREAMS_INVALID_TOPOLOGY),
        ({"topology": topology(subtopology(sources=[]))}, ErrorCode.STREAMS_INVALID_TOPOLOGY),
        ({"topology": topology(subtopology(repartition=[topic("r")]))}, ErrorCode.STREAMS_INVALID_TOPOLOGY),
        ({"topology": topology(subtopology("0"), subtopology("0"))}, ErrorCode.UNKNOWN_SERVER_ERROR),
        ({"topology": topology(subtopology(joined=[([4], [])]))}, ErrorCode.UNKNOWN_SERVER_ERROR),
        ({"topology": topology(epoch=-1)}, ErrorCode.UNKNOWN_SERVER_ERROR),
        ({"epoch": 1}, ErrorCode.GROUP_ID_NOT_FOUND),
        ({"epoch": -1}, ErrorCode.GROUP_ID_NOT_FOUND),
    ],
)
def test_what_cannot_be_meant_is_refused(harness: Harness, fields: dict[str, Any], code: ErrorCode) -> None:
    harness.services.groups.store.log.ensure()
    answer = StreamsGroupClient(harness).beat(**fields)
    assert (answer.error_code, answer.member_epoch, answer.heartbeat_interval_ms) == (code, 0, 0)


def test_without_the_feature_there_are_no_streams_groups(harness: Harness, client: StreamsGroupClient) -> None:
    harness.core.features.finalize({"streams.version": 0})
    assert client.beat().error_code == ErrorCode.UNSUPPORTED_VERSION
    assert client.describe().error_code == ErrorCode.UNSUPPORTED_VERSION


def test_a_group_survives_a_restart_and_a_deletion(harness: Harness, client: StreamsGroupClient) -> None:
    client.settle(["a", "b"], topology=counting())
    before = client.describe()
    store = harness.services.groups.store
    store.leader_moved(store.partition_of("g"))
    harness.run_soon()
    after = client.describe()
    assert after.members == before.members
    assert (after.group_epoch, after.assignment_epoch, after.group_state) == (
        before.group_epoch,
        before.assignment_epoch,
        before.group_state,
    )
    client.step("a")
    assert client.describe() == before
    assert harness.ask(DeleteGroupsRequest(groups_names=["g"]), 0).results[0].error_code == ErrorCode.NON_EMPTY_GROUP
    for member in ("a", "b"):
        client.beat(member, -1)
    assert harness.ask(DeleteGroupsRequest(groups_names=["g"]), 0).results[0].error_code == ErrorCode.NONE
    store.leader_moved(store.partition_of("g"))
    assert client.describe().error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_topology_in_the_wrong_order_is_followed_from_its_sources(client: StreamsGroupClient) -> None:
    count = 300
    chain = [
        subtopology(f"{number:03}", [], sinks=[f"r-{number}"], repartition=[topic(f"r-{number + 1}")])
        for number in range(count)
    ]
    ends = [subtopology("first", sinks=[f"r-{count}"]), subtopology("last", [], repartition=[topic("r-0")])]
    answer = client.beat(topology=topology(*chain, *ends))
    assert [code for code, _ in statuses(answer) if code == 3] == [3]
    assert all(len(topic_of(client.harness, f"r-{number}").partitions) == 1 for number in range(count + 1))
    loop = [subtopology("a", [], sinks=["x"], repartition=[topic("y")])]
    loop.append(subtopology("b", [], sinks=["y"], repartition=[topic("x")]))
    refused = client.beat("b", topology=topology(*loop), group_id="h")
    assert refused.error_code == ErrorCode.STREAMS_INVALID_TOPOLOGY


def test_a_sink_follows_the_sources_that_are_known_when_it_has_its_turn(client: StreamsGroupClient) -> None:
    """Kafka repeatedly iterates over sinks in order, and resolves the narrow source before the wide one."""
    parts = [
        subtopology("0", ["t"], sinks=["early"], repartition=[topic("wide")]),
        subtopology("1", [], sinks=["late"], repartition=[topic("early"), topic("wide")]),
        subtopology("2", ["t"], sinks=["wide"], repartition=[topic("late")]),
    ]
    client.harness.create("w", 4)
    parts[2].source_topics.append("w")
    client.beat(topology=topology(*parts))
    partition_counts = {name: len(topic_of(client.harness, name).partitions) for name in ("early", "late", "wide")}
    assert partition_counts == {"early": 1, "late": 1, "wide": 4}


def test_a_topology_has_so_many_parts_and_no_more(client: StreamsGroupClient) -> None:
    many = [f"s-{number}" for number in range(2_500)]
    answer = client.beat(topology=topology(subtopology("0", many)))
    assert (answer.error_code, answer.error_message) == (
        ErrorCode.STREAMS_INVALID_TOPOLOGY,
        "The topology has more than 2,500 subtopologies, topics and settings of topics.",
    )
    joined = client.beat(topology=topology(subtopology("0", joined=[([], [])] * 2_500)))
    assert joined.error_code == ErrorCode.STREAMS_INVALID_TOPOLOGY
    assert client.beat(topology=topology(subtopology("0", many[:-1]))).error_code == 0


def test_internal_topics_have_no_more_partitions_than_a_request_may_create(
    harness: Harness, client: StreamsGroupClient
) -> None:
    sinks = ["r-0", "r-1"]
    parts = [subtopology("0", sinks=sinks), subtopology("1", [], repartition=[topic(name, 6_000) for name in sinks])]
    answer = client.beat(topology=topology(*parts))
    (detail,) = [text for code, text in statuses(answer) if code == 3]
    assert "Creation failed: r-0 (Excessively large number of partitions per request.)" in detail
    assert [existing.name for existing in harness.core.topics if existing.name.startswith("r-")] == []


def test_many_internal_topics_are_made(harness: Harness, client: StreamsGroupClient) -> None:
    client.beat(topology=topology(subtopology(changelogs=[topic(f"c-{number}") for number in range(50)])))
    assert len([existing for existing in harness.core.topics if existing.name.startswith("c-")]) == 50
