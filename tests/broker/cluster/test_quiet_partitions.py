"""Sessions with quiet partitions against sessions whose partitions are all read: the same bytes, and the same waits.

Two brokers get the same requests. Between them all happens that may end a partition's quiet.
"""

import shutil
import tempfile
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from typing import Any, Final
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from minibroker.cluster.partition import Partition
from minibroker.cluster.quiet_partitions import QuietPartitions
from minibroker.faults.fault import Fault
from minibroker.faults.observer import faults_of
from minibroker.routing.outcomes import Waiting
from minibroker.security.authorization.acls import AclFilter, Operation, ResourceType
from minibroker_protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from minibroker_protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from minibroker_protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from minibroker_protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.broker.harness import Harness, batch, fetch_request, frame_of, produce_request
from tests.broker.requests.two_brokers import Side
from tests.broker.security.authorization.rules import AUTHORIZER, allow
from tests.samples import examples, not_in_check

LIVES: Final = 10
TOPICS: Final = ("t", "u")
PARTITIONS: Final = 3
CONFIG: Final = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.partition.verification.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
}
ALL: Final = 1 << 30
PRODUCER: Final = 9
topics = st.sampled_from(TOPICS)
indexes = st.integers(0, PARTITIONS - 1)


class Consumer(Side):
    """A broker, and a client whose fetches wait while other things happen."""

    def __init__(self, directory: str, config: dict[str, str], *, always_read: int) -> None:
        super().__init__(directory, config, repeats=True)
        self.arrived: list[bytes | str] = []
        self._waiting: list[Waiting] = []
        for node in self.harness.core.cluster.nodes.values():
            node.fetch_sessions.always_read = always_read

    def _wait(self, waiting: Waiting, received: list[bytes | str]) -> None:
        self._expect(waiting, self.arrived)
        self._waiting.append(waiting)

    def leave(self) -> None:
        """Close the connection, and make another one."""
        for each in self._waiting:
            each.delayed.cancel()
        self._waiting.clear()
        self.connect()

    def partition(self, topic: str, index: int) -> Partition | None:
        """A partition, if it exists."""
        known = self.harness.core.topics.get(topic)
        return None if known is None else known.partition(index)


@contextmanager
def small_steps() -> Generator[None, None, None]:
    """Have sessions of few partitions take the way of large ones."""
    with ExitStack() as stack:
        stack.enter_context(patch("minibroker.handlers.fetch._FEW", 3))
        for module in ("handlers.fetch", "requests.fetch.reader"):
            stack.enter_context(patch(f"minibroker.{module}.READ_AT_ONCE", 2))
        yield


class Sessions(RuleBasedStateMachine):
    """The life of one session with two brokers, of which the first one knows quiet partitions."""

    @initialize(guarded=st.booleans(), version=st.sampled_from([7, 9, 12, 13, 18]), waits=st.booleans())
    def begin(self, *, guarded: bool, version: int, waits: bool) -> None:
        """Begin a life in which the session is quiet before each step, and has a fetch that waits, or none."""
        self.wait_ms = 20 if waits else 0
        config = {**CONFIG, **(AUTHORIZER if guarded else {})}
        self.guarded, self.by_id = guarded, version >= 13
        self.correlation_id = 0
        self.session_id, self.epoch, self.committed, self.version = 0, 0, 0, version
        self.root = tempfile.mkdtemp(prefix="minibroker-")
        self.sides = [Consumer(f"{self.root}/{each}", config, always_read=each) for each in (0, ALL)]
        for side in self.sides:
            if guarded:
                for topic in TOPICS:
                    for operation in (Operation.READ, Operation.WRITE):
                        allow(side.harness, operation, ResourceType.TOPIC, topic)
                side.harness.user = "alice"
                side.connect()
        for topic in TOPICS:
            self.create(topic)
        self.open()

    def teardown(self) -> None:
        if hasattr(self, "sides"):
            for side in self.sides:
                side.harness.close()
            shutil.rmtree(self.root)

    def change(self, change: Callable[[Harness], object]) -> None:
        """Let an administrator change the same on both brokers."""
        done: list[object] = []
        for side in self.sides:
            user, side.harness.user = side.harness.user, None
            done.append(side.do(change))
            side.harness.user = user
        assert done[0] == done[1]

    def change_log(self, topic: str, index: int, change: Callable[[Harness, Partition], object]) -> None:
        """Do something to a partition, if it exists."""
        if self.sides[0].partition(topic, index) is not None:

            def found(harness: Harness) -> object:
                known = harness.core.topics.get(topic)
                partition = None if known is None else known.partition(index)
                return None if partition is None else change(harness, partition)

            self.change(found)

    def send(self, request: Any, version: int) -> list[bytes | str]:
        self.correlation_id += 1
        received = [side.send([frame_of(request, version, self.correlation_id)]) for side in self.sides]
        assert received[0] == received[1]
        return received[0]

    # What clients send

    @rule(asked=st.lists(st.tuples(topics, indexes), unique=True))
    def open(self, asked: list[tuple[str, int]] | None = None) -> None:
        """Begin a session with some partitions, or all."""
        if asked is None:
            asked = [(topic, index) for topic in TOPICS for index in range(PARTITIONS)]
        self.fetch_named([(*each, 0) for each in asked], epoch=0)

    def fetch_named(
        self,
        asked: list[tuple[str, int, int]],
        epoch: int,
        version: int = 12,
        forgotten: dict[str, list[int]] | None = None,
        **fields: Any,
    ) -> None:
        version = max(version, 13) if self.by_id else min(version, 12)
        request = fetch_request(
            *((topic, index, self.offset(topic, index, back)) for topic, index, back in asked),
            session_id=self.session_id,
            session_epoch=epoch,
            forgotten=forgotten,
            **{"max_wait_ms": 0, **fields},
        )
        if self.by_id:
            named: list[Any] = [*request.topics, *request.forgotten_topics_data]
            for each in named:
                known = self.sides[0].harness.core.topics.get(each.topic)
                each.topic_id = b"?" * 16 if known is None else known.id
        self.send(request, version)
        if epoch == 0:
            sessions = list(self.sides[0].harness.core.cluster.first.fetch_sessions)
            self.session_id, self.epoch = (sessions[-1].id, 1) if sessions else (0, 0)
        else:
            self.epoch += 1

    def offset(self, topic: str, index: int, back: int) -> int:
        """The offset that is `back` records before a partition's end."""
        partition = self.sides[0].partition(topic, index)
        return -back if partition is None else partition.log.log_end_offset - back

    @rule(
        asked=st.lists(st.tuples(topics, indexes, st.sampled_from([0, 0, 0, 1, 2, -1])), max_size=3),
        forgotten=st.sampled_from([None, None, None, {"t": [0]}, {"u": [1, 2]}]),
        times=st.integers(1, 3),
        version=st.sampled_from([7, 12, 12, 12, 13, 18, 18]),
        fields=st.fixed_dictionaries(
            {
                "max_wait_ms": st.sampled_from([0, 0, 20]),
                "min_bytes": st.sampled_from([1, 1, 100]),
                "isolation_level": st.sampled_from([0, 0, 0, 1]),
                "max_bytes": st.sampled_from([1 << 20, 1 << 20, 1, 0]),
            }
        ),
    )
    def fetch(
        self,
        asked: list[tuple[str, int, int]],
        forgotten: dict[str, list[int]] | None,
        times: int,
        version: int,
        fields: dict[str, Any],
    ) -> None:
        self.fetch_named(asked, self.epoch, version, forgotten, **fields)
        for _ in range(times - 1):
            self.fetch_named([], self.epoch, version, **fields)

    def catch_up(self) -> None:
        """Go on behind all records, until nothing new is left; begin again where the session has ended."""
        session = self.sides[0].harness.core.cluster.first.fetch_sessions.get(self.session_id)
        asked = [(topic, index, 0) for topic in TOPICS for index in range(PARTITIONS)]
        if session is None or session.epoch != self.epoch or len(session.partitions) != len(asked):
            self.open()
        for named, wait_ms in (asked, 0), ([], 0), ([], self.wait_ms):
            self.fetch_named(named, self.epoch, self.version, isolation_level=self.committed, max_wait_ms=wait_ms)

    @rule(committed=st.sampled_from([0, 1]), version=st.sampled_from([7, 9, 12, 18]))
    def read_otherwise(self, committed: int, version: int) -> None:
        self.committed, self.version = committed, version

    @rule(topic=topics, index=indexes, count=st.integers(1, 3), transactional=st.sampled_from([False, False, True]))
    def produce(self, topic: str, index: int, count: int, *, transactional: bool) -> None:
        partition = self.sides[0].partition(topic, index)
        if partition is not None and partition.leader is self.sides[0].harness.core.cluster.first:
            fields: dict[str, Any] = {}
            if transactional:
                known = partition.log.producers.active.get(PRODUCER)
                sequence = 0 if known is None else known.last_sequence + 1
                fields = {
                    "producer_id": PRODUCER,
                    "producer_epoch": 0,
                    "base_sequence": sequence,
                    "is_transactional": True,
                }
            self.send(produce_request(batch(*[b"x" * 30] * count, **fields), topic, index, acks=1), 9)

    @rule()
    def leave(self) -> None:
        for side in self.sides:
            side.leave()

    # What happens between

    @rule(topic=topics, index=indexes, committed=st.booleans())
    def end_transaction(self, topic: str, index: int, *, committed: bool) -> None:
        marker = WritableTxnMarker(
            producer_id=PRODUCER,
            producer_epoch=0,
            transaction_result=committed,
            topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[index])],
            coordinator_epoch=0,
        )
        self.change(lambda harness: harness.ask(WriteTxnMarkersRequest(markers=[marker]), 1))

    @rule(topic=topics, index=indexes, back=st.integers(0, 2))
    def delete_records(self, topic: str, index: int, back: int) -> None:
        self.change_log(
            topic,
            index,
            lambda _, each: each.log.advance_log_start_offset(
                min(each.log.log_start_offset + back, each.log.high_watermark)
            ),
        )

    @rule(topic=topics, index=indexes, back=st.integers(0, 2))
    def truncate(self, topic: str, index: int, back: int) -> None:
        self.change_log(
            topic,
            index,
            lambda harness, each: each.log.truncate_to(
                max(each.log.log_start_offset, each.log.log_end_offset - back), harness.clock.now_ms()
            ),
        )

    @rule(topic=topics, index=indexes)
    def begin_again(self, topic: str, index: int) -> None:
        self.change_log(
            topic,
            index,
            lambda harness, each: each.log.truncate_fully_and_start_at(each.log.log_end_offset, harness.clock.now_ms()),
        )

    @rule(topic=topics)
    def create(self, topic: str) -> None:
        made = CreatableTopic(name=topic, num_partitions=PARTITIONS, replication_factor=2)
        self.change(lambda harness: harness.ask(CreateTopicsRequest(topics=[made]), 7))
        for index in range(PARTITIONS):
            self.move_leader(topic, index, 1)
            self.produce(topic, index, 3, transactional=False)

    @rule(topic=topics)
    def delete(self, topic: str) -> None:
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=topic)], timeout_ms=1000)
        self.change(lambda harness: harness.ask(request, 6))

    @rule(topic=topics)
    def recreate(self, topic: str) -> None:
        self.delete(topic)
        self.create(topic)

    @rule(topic=topics, compression=st.sampled_from(["zstd", "producer"]))
    def configure(self, topic: str, compression: str) -> None:
        resource = AlterConfigsResource(
            resource_type=2,
            resource_name=topic,
            configs=[AlterableConfig(name="compression.type", config_operation=0, value=compression)],
        )
        request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
        self.change(lambda harness: harness.ask(request, 1))

    @rule(topic=topics, index=indexes, node=st.integers(1, 2))
    def move_leader(self, topic: str, index: int, node: int) -> None:
        self.change(lambda harness: harness.core.cluster.move_leader(topic, index, node))

    @rule(topic=topics, index=indexes, replicas=st.sampled_from([(1,), (2,), (2, 1)]))
    def reassign(self, topic: str, index: int, replicas: tuple[int, ...]) -> None:
        if all(self.sides[0].harness.core.cluster.node(each).is_up for each in replicas):
            self.change_log(topic, index, lambda harness, each: harness.core.cluster.reassign(each, replicas))

    @rule(up=st.booleans())
    def other_node(self, *, up: bool) -> None:
        self.change(lambda harness: (harness.core.cluster.start_node if up else harness.core.cluster.stop_node)(2))

    @rule(topic=topics, allowed=st.booleans())
    def change_rights(self, topic: str, *, allowed: bool) -> None:
        if not self.guarded:
            return

        def change(harness: Harness) -> None:
            authorizer = harness.services.authorizer
            assert authorizer is not None
            authorizer.remove([acl for acl in authorizer.find(AclFilter()) if acl.resource_name == topic])
            if allowed:
                for operation in (Operation.READ, Operation.WRITE):
                    allow(harness, operation, ResourceType.TOPIC, topic)

        self.change(change)

    @rule(user=st.sampled_from(["alice", "bob"]))
    def change_user(self, user: str) -> None:
        if self.guarded:
            for side in self.sides:
                side.harness.user = user
                side.connect()

    @rule(topic=topics, index=indexes)
    def fail_once(self, topic: str, index: int) -> None:
        for side in self.sides:
            faults = faults_of(side.harness.services)
            faults.clear()
            faults.add(Fault(api="Fetch", topic=topic, partition=index, error="NOT_LEADER_OR_FOLLOWER", times=1))

    @rule(ms=st.sampled_from([1, 20, 1000]))
    def time_goes_by(self, ms: int) -> None:
        self.change(lambda harness: harness.clock.advance(ms))

    @invariant()
    def same_answers(self) -> None:
        if hasattr(self, "sides"):
            for side in self.sides:
                side.harness.run_soon()
            for _ in range(2):  # the first one may hear of an error, and the second one of its end
                self.fetch_named([], self.epoch, self.version, isolation_level=self.committed)
            self.catch_up()
            assert sorted(self.sides[0].arrived, key=repr) == sorted(self.sides[1].arrived, key=repr)
            for side in self.sides:
                side.arrived.clear()


@not_in_check
@pytest.mark.parametrize("in_steps", [False, True])
def test_quiet_partitions_change_no_byte(*, in_steps: bool) -> None:
    silenced = 0
    silence = QuietPartitions.silence

    def counted(self: QuietPartitions, key: Any, log: Any) -> bool:
        nonlocal silenced
        is_quiet = silence(self, key, log)
        silenced += is_quiet
        return is_quiet

    lives = settings(
        examples(400, LIVES, HealthCheck.data_too_large),
        stateful_step_count=40,
        phases=[Phase.generate],  # a shorter life takes minutes to find, and says no more
    )
    with patch.object(QuietPartitions, "silence", counted), small_steps() if in_steps else ExitStack():
        run_state_machine_as_test(Sessions, settings=lives)
    assert silenced > LIVES * 10
