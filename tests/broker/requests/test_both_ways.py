"""The short way against the long way: two brokers get the same requests, and have to send the same bytes.

Between the requests topics, leaders, configurations, rights, quotas, faults and the disk change. The connection to one
broker takes the short way where it can, the one to the other broker never does.
"""

import shutil
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, Final
from unittest.mock import patch

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from minibroker.faults.fault import Fault
from minibroker.faults.observer import drop_journal, faults_of, keep_journal
from minibroker.security.authorization.acls import AclFilter, Operation, ResourceType
from minibroker_protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from minibroker_protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from minibroker_protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from minibroker_protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from minibroker_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.broker.harness import Harness, fetch_request, frame_of, produce_request, response_of
from tests.broker.quotas.asking import set_quota
from tests.broker.requests.two_brokers import RECORDS, Counted, Side, ends_of, log_bytes, others, refused
from tests.broker.security.authorization.rules import AUTHORIZER, allow
from tests.samples import examples

LIVES: Final = 25
TOPICS: Final = ("t", "u")
CONFIG: Final = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"}
CONFIGS: Final = (
    ("max.message.bytes", "100"),
    ("max.message.bytes", "100000"),
    ("min.insync.replicas", "2"),
    ("min.insync.replicas", "1"),
    ("compression.type", "gzip"),
    ("compression.type", "producer"),
    ("message.timestamp.type", "LogAppendTime"),
    ("message.timestamp.type", "CreateTime"),
    ("flush.messages", "3"),
    ("flush.messages", "9223372036854775807"),
    ("cleanup.policy", "compact"),
    ("cleanup.policy", "delete"),
    ("segment.bytes", "1000"),
)
FAULTS: Final = (
    {"api": "Produce", "error": "NOT_LEADER_OR_FOLLOWER"},
    {"api": "Metadata", "error": "LEADER_NOT_AVAILABLE"},
    {"api": "Heartbeat", "error": "NOT_COORDINATOR"},
    {"api": "Produce", "topic": "u", "throttle_ms": 5},
)


class BothWays(RuleBasedStateMachine):
    """One client's life with two brokers."""

    @initialize(guarded=st.booleans())
    def begin(self, *, guarded: bool) -> None:
        config = {**CONFIG, **(AUTHORIZER if guarded else {})}
        self.guarded = guarded
        self.disk_faults = ExitStack()
        self.correlation_id = 0
        self.session, self.epoch = (77, 12), 1
        self.root = tempfile.mkdtemp(prefix="minibroker-")
        self.sides = [Side(f"{self.root}/{name}", config, repeats=name == "s") for name in ("s", "l")]
        for side in self.sides:
            if guarded:
                allow(side.harness, Operation.WRITE, ResourceType.TOPIC, "t")
                allow(side.harness, Operation.DESCRIBE, ResourceType.TOPIC, "t")
                side.harness.user = "alice"
                side.connect()
        self.create("t", 2)
        self.create("u", 1)

    def teardown(self) -> None:
        if not hasattr(self, "sides"):
            return
        self.disk_faults.close()
        kept = [
            [(topic.name, [log_bytes(each) for each in topic.partitions]) for topic in side.harness.core.topics]
            for side in self.sides
        ]
        for side in self.sides:
            side.harness.close()
        shutil.rmtree(self.root)
        assert kept[0] == kept[1]

    def change(self, change: Callable[[Harness], object]) -> None:
        """Let an administrator change the same on both sides."""
        done = []
        for side in self.sides:
            user, side.harness.user = side.harness.user, None
            done.append(side.do(change))
            side.harness.user = user
        assert done[0] == done[1]

    def send(self, *requests: tuple[Any, int]) -> list[bytes | str]:
        """Send requests in one wake-up, and compare what comes."""
        frames = []
        for request, version in requests:
            self.correlation_id += 1
            frames.append(frame_of(request, version, self.correlation_id))
        received = [side.send(frames) for side in self.sides]
        assert received[0] == received[1]
        return received[0]

    def produced(self, topic: str, index: int, version: int, acks: int, records: bytes) -> tuple[Any, int]:
        request = produce_request(records, topic, index, acks=acks)
        if version >= 13:
            known = self.sides[0].harness.core.topics.get(topic)
            request.topic_data[0].topic_id = b"?" * 16 if known is None else known.id
        return request, version

    # What clients send

    @rule(
        topic=st.sampled_from(TOPICS),
        index=st.sampled_from([0, 0, 1]),
        version=st.sampled_from([2, 4, 7, 9, 9, 10, 13]),
        acks=st.sampled_from([1, -1, -1, 0, 2]),
        records=st.lists(st.sampled_from(RECORDS), min_size=1, max_size=4),
    )
    def produce(self, topic: str, index: int, version: int, acks: int, records: list[bytes]) -> None:
        self.send(*(self.produced(topic, index, version, acks, each) for each in records))

    @rule(
        topic=st.sampled_from(TOPICS),
        index=st.sampled_from([0, 0, 1]),
        version=st.sampled_from([9, 9, 13]),
        times=st.integers(2, 5),
        records=st.sampled_from(RECORDS),
    )
    def produce_again(self, topic: str, index: int, version: int, times: int, records: bytes) -> None:
        for _ in range(times):
            self.send(*[self.produced(topic, index, version, -1, records)] * 2)

    @rule(request=st.sampled_from(others()), times=st.integers(2, 5))
    def ask(self, request: tuple[Any, int], times: int) -> None:
        for _ in range(times):
            self.send(request)

    @rule(
        topic=st.sampled_from(TOPICS),
        offsets=st.lists(st.integers(0, 9), min_size=2, max_size=5),
        version=st.sampled_from([3, 4, 7, 12, 13, 16]),
        max_wait_ms=st.sampled_from([0, 0, 5]),
        committed=st.booleans(),
    )
    def fetch(self, topic: str, offsets: list[int], version: int, max_wait_ms: int, *, committed: bool) -> None:
        for offset in offsets:
            request = fetch_request(
                (topic, 0, offset), max_wait_ms=max_wait_ms, isolation_level=int(committed), session_epoch=-1
            )
            self.send((self.by_id(request, version), version))

    @rule(version=st.sampled_from([12, 12, 13]), partitions=st.lists(st.sampled_from(TOPICS), unique=True))
    def open_session(self, version: int, partitions: list[str]) -> None:
        request = fetch_request(*((each, 0, 0) for each in partitions), max_wait_ms=0, session_epoch=0)
        received = self.send((self.by_id(request, version), version))
        if received and isinstance(received[0], bytes):
            response = response_of(request, version, received[0], self.correlation_id)
            self.session = response.session_id, version
            self.epoch = 1

    @rule(
        topic=st.sampled_from(TOPICS),
        offsets=st.lists(st.sampled_from([None, None, 0, 1, 2, 3, 5]), min_size=1, max_size=5),
        skipped=st.sampled_from([0, 0, 0, 0, 1, -1]),
        max_wait_ms=st.sampled_from([0, 0, 5]),
    )
    def fetch_in_session(self, topic: str, offsets: list[int | None], skipped: int, max_wait_ms: int) -> None:
        session_id, version = self.session
        for offset in offsets:
            asked = () if offset is None else ((topic, 0, offset),)
            epoch = self.epoch + skipped
            request = fetch_request(*asked, max_wait_ms=max_wait_ms, session_id=session_id, session_epoch=epoch)
            self.send((self.by_id(request, version), version))
            self.epoch += not skipped

    @rule(
        offsets=st.lists(st.integers(0, 9), min_size=2, max_size=5),
        topics=st.lists(st.sampled_from(TOPICS), min_size=1, unique=True),
    )
    def commit(self, offsets: list[int], topics: list[str]) -> None:
        for offset in offsets:
            partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
            named = [OffsetCommitRequestTopic(name=each, partitions=[partition]) for each in topics]
            self.send((OffsetCommitRequest(group_id="h", topics=named), 8))

    def by_id(self, request: Any, version: int) -> Any:
        """The request with the ids of its topics, where the version wants them."""
        if version >= 13:
            for each in request.topics:
                known = self.sides[0].harness.core.topics.get(each.topic)
                each.topic_id = b"?" * 16 if known is None else known.id
        return request

    @rule(requests=st.lists(st.sampled_from(others()), min_size=1, max_size=3))
    def ask_behind_records(self, requests: list[tuple[Any, int]]) -> None:
        self.send(self.produced("t", 0, 9, -1, RECORDS[1]), *requests)

    # What happens between

    @rule(topic=st.sampled_from(TOPICS), partitions=st.integers(1, 2))
    def create(self, topic: str, partitions: int) -> None:
        made = CreatableTopic(name=topic, num_partitions=partitions, replication_factor=2)
        self.change(lambda harness: harness.ask(CreateTopicsRequest(topics=[made]), 7))

    @rule(topic=st.sampled_from(TOPICS))
    def delete(self, topic: str) -> None:
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=topic)], timeout_ms=1000)
        self.change(lambda harness: harness.ask(request, 6))

    @rule(topic=st.sampled_from(TOPICS))
    def recreate(self, topic: str) -> None:
        self.delete(topic)
        self.create(topic, 2)

    @rule(topic=st.sampled_from(TOPICS), partitions=st.integers(2, 4))
    def add_partitions(self, topic: str, partitions: int) -> None:
        more = CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name=topic, count=partitions, assignments=None)],
            timeout_ms=1000,
            validate_only=False,
        )
        self.change(lambda harness: harness.ask(more, 3))

    @rule(topic=st.sampled_from(TOPICS), config=st.sampled_from(CONFIGS))
    def configure(self, topic: str, config: tuple[str, str]) -> None:
        name, value = config
        resource = AlterConfigsResource(
            resource_type=2,
            resource_name=topic,
            configs=[AlterableConfig(name=name, config_operation=0, value=value)],
        )
        request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
        self.change(lambda harness: harness.ask(request, 1))

    @rule(topic=st.sampled_from(TOPICS), index=st.integers(0, 1), node=st.integers(1, 2))
    def move_leader(self, topic: str, index: int, node: int) -> None:
        self.change(lambda harness: harness.core.cluster.move_leader(topic, index, node))

    @rule(up=st.booleans())
    def other_node(self, *, up: bool) -> None:
        self.change(lambda harness: (harness.core.cluster.start_node if up else harness.core.cluster.stop_node)(2))

    @rule(topic=st.sampled_from(TOPICS), allowed=st.booleans())
    def change_rights(self, topic: str, *, allowed: bool) -> None:
        if not self.guarded:
            return

        def change(harness: Harness) -> None:
            authorizer = harness.services.authorizer
            assert authorizer is not None
            authorizer.remove([acl for acl in authorizer.find(AclFilter()) if acl.resource_name == topic])
            if allowed:
                allow(harness, Operation.WRITE, ResourceType.TOPIC, topic)
                allow(harness, Operation.READ, ResourceType.GROUP, "g")

        self.change(change)

    @rule(watched=st.sampled_from(["", "", "", "quota", "fault", "journal"]), fields=st.sampled_from(FAULTS))
    def watch(self, watched: str, fields: dict[str, Any]) -> None:
        """Have a quota, a fault or a journal from now on, or nothing of these."""
        limit = 1e9 if watched == "quota" else None
        self.change(lambda harness: set_quota(harness, {"client-id": "test"}, producer_byte_rate=limit))
        for side in self.sides:
            faults_of(side.harness.services).clear()
            if watched == "fault":
                faults_of(side.harness.services).add(Fault(**fields))
            if watched == "journal":
                keep_journal(side.harness.services)
            else:
                drop_journal(side.harness.services)

    @rule(full=st.sampled_from([False, False, True]))
    def disk(self, *, full: bool) -> None:
        self.disk_faults.close()
        if full:
            for name in ("pwrite_all", "pwritev_all"):
                self.disk_faults.enter_context(patch(f"minibroker_storage.segment.{name}", refused))

    @rule(ms=st.sampled_from([1, 1000, 10**7]))
    def time_goes_by(self, ms: int) -> None:
        self.change(lambda harness: harness.clock.advance(ms))

    @invariant()
    def same_offsets(self) -> None:
        if hasattr(self, "sides"):
            ends = [
                [
                    (topic.name, topic.id, [ends_of(each) for each in topic.partitions])
                    for topic in side.harness.core.topics
                ]
                for side in self.sides
            ]
            assert ends[0] == ends[1]
            assert self.sides[0].journal() == self.sides[1].journal()


def test_both_ways_tell_and_do_the_same() -> None:
    Counted.taken = 0
    lives = settings(examples(whole=500, sample=LIVES), stateful_step_count=40, suppress_health_check=list(HealthCheck))
    run_state_machine_as_test(BothWays, settings=lives)
    assert Counted.taken > LIVES * 4
