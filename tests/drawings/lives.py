"""The life of a transaction and of rebalances. Every text comes from the responses of a broker without sockets."""

from collections.abc import Generator
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import Any

from minibroker.coordinators.transactions.transaction import TransactionState
from minibroker.operations.wording import format_count
from minibroker_protocol.coordinator_records import TransactionLogValue, decode_versioned
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.describe_transactions import DescribeTransactionsRequest
from minibroker_protocol.records.batch import iter_batches
from tests.broker.coordinators.groups.consumers import Consumers, Owned
from tests.broker.coordinators.groups.driver import Members
from tests.broker.coordinators.groups.member_requests import heartbeat_request, join_request, sync_request
from tests.broker.coordinators.transactions.producer import READ_COMMITTED, Producer, markers_in
from tests.broker.harness import Harness, Pending, bytes_in
from tests.drawings.lanes import Lanes
from tests.drawings.svg import Drawing

_FIRST, _SECOND = "first member", "second member"
_COORDINATOR = "group coordinator"


@contextmanager
def _broker(partitions: int = 1) -> Generator[Harness]:
    with TemporaryDirectory() as directory:
        harness = Harness(directory, {"group.initial.rebalance.delay.ms": "0"})
        harness.create("t", partitions)
        yield harness
        harness.close()


def transaction() -> Drawing:
    """Draw a transaction that commits, and the next one, which is fenced."""
    lanes = Lanes(
        "The life of a transaction",
        ("producer", "coordinator", "log t-0"),
        "the coordinator's state; of the log: end, last stable offset",
        state_width=420,
    )
    with _broker() as harness:

        def state() -> str:
            found = harness.ask(DescribeTransactionsRequest(transactional_ids=["mine"]), 0).transaction_states[0]
            data = harness.fetch_one(0, isolation_level=READ_COMMITTED)
            return f"{found.transaction_state}; end {data.high_watermark}, stable {data.last_stable_offset}"

        producer = Producer(harness)
        lanes.step("producer", "coordinator", "InitProducerId, id mine", state())
        lanes.step("coordinator", "producer", f"producer id {producer.id}, epoch {producer.epoch}")
        _step(lanes, "coordinator", "AddPartitionsToTxn, t-0", producer.add(("t", 0))[0], state())
        for value in (b"debit", b"credit"):
            outcome = producer.send(value)
            _step(lanes, "log t-0", f"Produce, offset {outcome.base_offset}", outcome.error_code, state())
        _step(lanes, "coordinator", "AddOffsetsToTxn, group g", producer.add_offsets("g"), state())
        _step(lanes, "coordinator", "TxnOffsetCommit, t-0 up to 7", producer.commit_offset("g", 7), state())
        code = producer.commit()
        prepared = _logged_states(harness)[-2]
        ((offset, *_),) = markers_in(harness)
        lanes.step("producer", "coordinator", f"EndTxn, commit: {ErrorCode(code).name}", f"{prepared} in its log")
        lanes.step("coordinator", "log t-0", f"commit marker, offset {offset}", state())
        lanes.between("Another process takes the transactional id:")
        other = Producer(harness)
        lanes.step("coordinator", "producer", f"InitProducerId: epoch {other.epoch}", state())
        lanes.between("The first process goes on:")
        _step(lanes, "coordinator", "AddPartitionsToTxn", producer.add(("t", 0))[0], state())
    return lanes.drawing()


def _logged_states(harness: Harness) -> list[str]:
    """Return the states of the transaction in the order of their records in `__transaction_state`."""
    partition = harness.services.transactions.store.log.partition_of("mine")
    records = bytes_in(harness.fetch_one(0, "__transaction_state", partition))
    return [
        TransactionState(decode_versioned(TransactionLogValue, record.value).transaction_status).wire_name
        for record_batch in iter_batches(memoryview(records))
        for record in record_batch
        if record.value is not None
    ]


def _step(lanes: Lanes, receiver: str, words: str, code: int, state: str) -> None:
    lanes.step("producer", receiver, f"{words}: {ErrorCode(code).name}", state, refused=bool(code))


class _Classic:
    """Two members of the classic protocol, and the lanes of their requests."""

    def __init__(self, harness: Harness, lanes: Lanes) -> None:
        self.harness = harness
        self.lanes = lanes
        self.members = Members(harness)
        self.ids = {_FIRST: "", _SECOND: ""}

    def ask(self, who: str, words: str, request: Any, version: int) -> Any:
        answer = self.harness.send(request, version)
        waits = isinstance(answer, Pending)
        self.lanes.step(who, _COORDINATOR, words + (": waits" if waits else ""), self.state())
        return answer if waits else self.say(who, words, answer)

    def say(self, who: str, words: str, answer: Any) -> Any:
        code = ErrorCode(answer.error_code).name
        outcome = [code] if answer.error_code else []
        if words == "JoinGroup" and not answer.error_code:
            outcome = [f"generation {answer.generation_id}" + (", you lead" if answer.members else "")]
        if words == "SyncGroup" and not answer.error_code:
            outcome = [f"assignment {bytes(answer.assignment).decode()}"]
        self.lanes.step(_COORDINATOR, who, ", ".join(outcome) or code, refused=bool(answer.error_code))
        return answer

    def state(self) -> str:
        group = self.members.describe()
        return f"{group.group_state}, {format_count(len(group.members), 'member')}"

    def join(self, who: str) -> Any:
        return self.ask(who, "JoinGroup", join_request("g", self.ids[who]), 9)

    def sync(self, who: str, generation: int, assignments: dict[str, bytes] | None = None) -> Any:
        return self.ask(who, "SyncGroup", sync_request("g", self.ids[who], generation, assignments), 5)


def classic_rebalance() -> Drawing:
    """Draw a single member that is joined by a second one."""
    lanes = Lanes("A rebalance of the classic protocol", (_FIRST, _COORDINATOR, _SECOND), "state of the group")
    with _broker(4) as harness:
        group = _Classic(harness, lanes)
        group.ids[_FIRST] = group.join(_FIRST).member_id
        group.join(_FIRST)
        group.sync(_FIRST, 1, {group.ids[_FIRST]: b"0, 1, 2, 3"})
        group.ids[_SECOND] = group.join(_SECOND).member_id
        waiting = group.join(_SECOND)
        beat = heartbeat_request("g", group.ids[_FIRST], 1)
        group.ask(_FIRST, "Heartbeat", beat, 4)
        group.join(_FIRST)
        group.say(_SECOND, "JoinGroup", waiting.response)
        waiting = group.sync(_SECOND, 2)
        group.sync(_FIRST, 2, {group.ids[_FIRST]: b"0, 1", group.ids[_SECOND]: b"2, 3"})
        group.say(_SECOND, "SyncGroup", waiting.response)
    return lanes.drawing()


def consumer_rebalance() -> Drawing:
    """Draw the same rebalance with the consumer protocol (KIP-848).

    No member stops, and each partition moves when it is revoked.
    """
    lanes = Lanes("A rebalance of the consumer protocol", (_FIRST, _COORDINATOR, _SECOND), "state of the group")
    with _broker(4) as harness:
        group = Consumers(harness)
        names = {_FIRST: "a", _SECOND: "b"}
        epochs = dict.fromkeys(names, 0)

        def beat(who: str, owned: Owned | None = None) -> None:
            words = f"heartbeat, epoch {epochs[who]}" + ("" if owned is None else f", owns {_indexes(owned)}")
            answer = group.beat(names[who], epochs[who], owned)
            described = group.describe()
            state = f"{described.group_state}, epoch {described.group_epoch}"
            lanes.step(who, _COORDINATOR, words, state)
            epochs[who] = answer.member_epoch
            assignment = group.given(answer)
            words = f"epoch {answer.member_epoch}" + (
                "" if assignment is None else f", assignment {_indexes(assignment)}"
            )
            lanes.step(_COORDINATOR, who, words)

        beat(_FIRST)
        beat(_FIRST, {"t": [0, 1, 2, 3]})
        beat(_SECOND)
        beat(_FIRST)
        beat(_SECOND)
        beat(_FIRST, {"t": [0, 1]})
        beat(_SECOND)
        beat(_SECOND, {"t": [2, 3]})
    return lanes.drawing()


def _indexes(owned: Owned) -> str:
    return ", ".join(str(index) for index in owned.get("t", ())) or "none"
