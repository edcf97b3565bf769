"""Requests of producers to a transaction coordinator, right and wrong ones; the responses are to be Kafka's.

A scenario asks a broker and returns what it was answered, see `Stage` for what is left out.
"""

import itertools
from collections.abc import Callable, Iterator
from typing import Any, Final

from minibroker_protocol.messages.describe_transactions import (
    DescribeProducersRequest,
    ListTransactionsRequest,
    TopicRequest,
)
from minibroker_protocol.messages.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.broker.coordinators.transactions.producer import Producer, init_producer_id, produce_in
from tests.kafka.transaction_stage import Stage

Answers = list[tuple[Any, ...]]
Scenario = Callable[[Stage], Answers]

INIT_VERSIONS: Final = range(6)
ADD_VERSIONS: Final = range(4)
END_VERSIONS: Final = range(5)
PRODUCE_VERSIONS: Final = range(3, 12)


def init_errors(stage: Stage) -> Answers:
    """InitProducerId that has to be refused, or is at a limit."""
    answers: Answers = []
    for version in INIT_VERSIONS:
        mistakes: list[dict[str, Any]] = [
            {"transactional_id": ""},
            {"transactional_id": "", "timeout_ms": 0},
            {"timeout_ms": 0},
            {"timeout_ms": -1},
            {"timeout_ms": 900_001},
            {"timeout_ms": 900_000},
            {"transactional_id": None, "timeout_ms": 0},
            *([{"producer_id": 5}, {"producer_epoch": 5}, {"producer_id": 5, "producer_epoch": 5}] * (version >= 3)),
        ]
        for fields in mistakes:
            asked: dict[str, Any] = {"transactional_id": stage.named(), **fields}
            answer = init_producer_id(stage.broker, **asked, version=version)
            answers.append((version, fields, answer.error_code, answer.producer_id >= 0, answer.producer_epoch))
    return answers


def mistaken(stage: Stage, known: Producer) -> Iterator[tuple[str, Producer]]:
    """Producers that pretend to be another one, or are none."""
    for mistake, transactional_id, id_step, epoch_step in (
        ("unknown transactional id", stage.named(), 0, 0),
        ("empty transactional id", "", 0, 0),
        ("another id", known.transactional_id, 1, 0),
        ("an older epoch", known.transactional_id, 0, -1),
        ("a newer epoch", known.transactional_id, 0, 1),
    ):
        producer = Producer(stage.broker, transactional_id, init=False)
        producer.id, producer.epoch = known.id + id_step, known.epoch + epoch_step
        yield mistake, producer


def mistaken_producers(stage: Stage) -> Answers:
    """Every request of a transaction, from producers that it does not belong to."""
    known = stage.second_epoch()
    assert known.add(stage.place()) == [0]
    answers: Answers = []
    for mistake, producer in mistaken(stage, known):
        answers += [
            *((mistake, "add", version, producer.add(stage.place(1), version=version)) for version in ADD_VERSIONS),
            *((mistake, "offsets", version, producer.add_offsets("g", version=version)) for version in END_VERSIONS),
            *((mistake, "commit", version, producer.commit(version=version)) for version in END_VERSIONS),
            *((mistake, "abort", version, producer.abort(version=version)) for version in END_VERSIONS),
            *(
                (mistake, "send", version, producer.send(b"x", topic=stage.topic, version=version).error_code)
                for version in PRODUCE_VERSIONS
            ),
            (mistake, stage.state_of(known)),
        ]
    return answers


def partitions_that_cannot_be_added(stage: Stage) -> Answers:
    """Unknown and internal topics among those that are added."""
    answers: Answers = []
    for version in ADD_VERSIONS:
        producer = stage.producer()
        for places in (
            [stage.place(), (stage.topic, 2)],
            [stage.place(), ("nowhere", 0), (stage.topic, -1)],
            [stage.place(), ("__consumer_offsets", 0)],
            [stage.place(), ("__consumer_offsets", 0), ("nowhere", 0)],
            [],
            [stage.place(), stage.place()],
        ):
            answers.append(
                (version, len(places), sorted(producer.add(*places, version=version)), stage.state_of(producer))
            )
    return answers


def _batched(*transactions: tuple[Producer, bool, list[tuple[str, int]]]) -> AddPartitionsToTxnRequest:
    return AddPartitionsToTxnRequest(
        transactions=[
            AddPartitionsToTxnTransaction(
                transactional_id=producer.transactional_id,
                producer_id=producer.id,
                producer_epoch=producer.epoch,
                verify_only=verify_only,
                topics=[AddPartitionsToTxnTopic(name=name, partitions=[index]) for name, index in places],
            )
            for producer, verify_only, places in transactions
        ]
    )


def batches_of_brokers(stage: Stage) -> Answers:
    """AddPartitionsToTxn as brokers send it, with and without `verify_only`."""
    answers: Answers = []
    for version in (4, 5):
        idle, ended, opened = stage.producer(), stage.producer(), stage.second_epoch()
        assert ended.add(stage.place()) == [0]
        assert ended.commit() == 0
        settled(stage, ended)
        assert opened.add(stage.place()) == [0]
        for mistake, producer in (("idle", idle), ("ended", ended), ("opened", opened), *mistaken(stage, opened)):
            for verify_only in (True, False):
                for places in ([stage.place()], [stage.place(1)], [("nowhere", 0)], [("__consumer_offsets", 0)]):
                    response = stage.broker.ask(_batched((producer, verify_only, places)), version)
                    answers.append((version, mistake, verify_only, places, response.error_code, *_outcomes(response)))
        one, other = stage.producer(), stage.producer()
        response = stage.broker.ask(_batched((one, False, [stage.place()]), (other, True, [stage.place()])), version)
        answers.append((version, "two", *_outcomes(response)))
    return answers


def _outcomes(response: Any) -> list[Any]:
    return sorted(
        (
            transaction.transactional_id,
            sorted(
                (topic.name, partition.partition_index, partition.partition_error_code)
                for topic in transaction.topic_results
                for partition in topic.results_by_partition
            ),
        )
        for transaction in response.results_by_transaction
    )


def _in_state(stage: Stage, state: str) -> Producer:
    producer = stage.producer()
    if state != "empty":
        assert producer.add(stage.place()) == [0]
    if state in {"committed", "aborted"}:
        assert producer.end(commit=state == "committed") == 0
        settled(stage, producer)
    return producer


STATES: Final = ("empty", "opened", "committed", "aborted")


def ends(stage: Stage) -> Answers:
    """EndTxn in every state."""
    answers: Answers = []
    for version, state, commit in itertools.product(END_VERSIONS, STATES, (True, False)):
        producer = _in_state(stage, state)
        first = producer.end(commit=commit, version=version)
        settled(stage, producer)
        again = producer.end(commit=commit, version=version)
        other = producer.end(commit=not commit, version=version)
        answers.append((version, state, commit, first, again, other, stage.state_of(producer)))
    return answers


def settled(stage: Stage, producer: Producer) -> None:
    """Kafka writes the markers after its answer."""
    while stage.state_of(producer)[0].startswith("Prepare"):
        pass


def fencing(stage: Stage) -> Answers:
    """A second producer of the same transactional id, in every state that the first one can be in."""
    answers: Answers = []
    for version, state in itertools.product(INIT_VERSIONS, STATES):
        old = _in_state(stage, state)
        new = Producer(stage.broker, old.transactional_id, timeout_ms=30_000, init=False)
        first = new.init(version=version)
        answers.append((version, state, first, stage.state_of(new)[3:5]))
        if first:
            settled(stage, old)
            answers.append((stage.state_of(new), new.init(version=version), stage.state_of(new)))
        answers.append((stage.id(old.id) == stage.id(new.id), old.epoch, new.epoch))
        answers += [(each, old.add(stage.place(), version=each)) for each in ADD_VERSIONS]
        answers += [(each, old.add_offsets("g", version=each)) for each in END_VERSIONS]
        answers += [(each, old.commit(version=each)) for each in END_VERSIONS]
        answers += [(each, old.send(b"x", topic=stage.topic, version=each).error_code) for each in PRODUCE_VERSIONS]
        answers += [(each, old.init(version=each, keeps_id=True)) for each in (3, 4, 5)]
    return answers


def continuing(stage: Stage) -> Answers:
    """InitProducerId of a producer that names what it has (KIP-360)."""
    answers: Answers = []
    for version, state in itertools.product((3, 4, 5), STATES):
        producer = _in_state(stage, state)
        first_id = producer.id
        for id_step, epoch in ((0, 0), (0, 0), (0, 1), (0, 0), (0, 5), (1, 0), (0, 2), (0, 1)):
            answer = init_producer_id(
                stage.broker,
                producer.transactional_id,
                version=version,
                producer_id=first_id + id_step,
                producer_epoch=epoch,
            )
            answers.append((version, state, id_step, epoch, answer.error_code, answer.producer_epoch))
            if answer.error_code == 51:
                settled(stage, producer)
            answers.append(stage.state_of(producer))
    return answers


def writes(stage: Stage) -> Answers:
    """Transactional batches before, in, and after their transaction."""
    return [answer for version in PRODUCE_VERSIONS for answer in _writes(stage, version)]


def _writes(stage: Stage, version: int) -> Iterator[tuple[Any, ...]]:
    producer = stage.producer()
    mine = producer.transactional_id

    def sent(label: str, partition: int = 0) -> tuple[Any, ...]:
        outcome = producer.send(b"x", topic=stage.topic, partition=partition, version=version)
        return version, label, outcome.error_code, outcome.base_offset >= 0, stage.state_of(producer)[0]

    def batch(label: str, transactional_id: str | None, partition: int = 0, **fields: Any) -> tuple[Any, ...]:
        place = stage.place(partition)
        outcome = produce_in(
            stage.broker, transactional_id, producer.batch(b"x", place=place, **fields), place, version
        )
        return version, label, outcome.error_code, outcome.base_offset >= 0

    yield sent("nothing is open")
    producer.add(stage.place())
    yield sent("added")
    yield sent("not added", 1)
    yield sent("open in the log")
    yield batch("no transactional id", None)
    yield batch("another transactional id", "another", 1)
    yield batch("another transactional id, open in the log", "another")
    yield batch("repeated", mine, base_sequence=0)
    yield batch("not transactional", mine, is_transactional=False)
    yield batch("not transactional, elsewhere", mine, 1, is_transactional=False)
    producer.sequences[stage.place()] = 3
    producer.commit()
    settled(stage, producer)
    yield sent("committed")
    producer.add(stage.place())
    yield sent("next transaction")
    yield batch("repeated from before", mine, base_sequence=0)
    producer.abort()
    settled(stage, producer)
    yield batch("repeated after the end", mine, base_sequence=0)
    producer.add(stage.place())
    yield sent("behind one that was refused")
    yield batch("what was refused", mine, base_sequence=0)
    producer.abort()


def lists(stage: Stage) -> Answers:
    """ListTransactions with every filter, and what DescribeTransactions does not know."""
    answers: Answers = [("unknown", stage.described(stage.named())), ("empty", stage.described(""))]
    producers = {state: _in_state(stage, state) for state in STATES}
    for producer in producers.values():
        settled(stage, producer)
    ours = {producer.transactional_id for producer in producers.values()}
    for version, states, ids, duration in itertools.product(
        (0, 1),
        ([], ["Ongoing"], ["Empty", "CompleteCommit"], ["Nonsense"], ["ongoing", "Empty"], ["Dead"]),
        ([], ["opened"], ["empty", "aborted"], ["none"]),
        (-1, 0, 3_600_000),
    ):
        if version == 0 and duration >= 0:
            continue
        request = ListTransactionsRequest(
            state_filters=list(states),
            producer_id_filters=[producers[each].id if each in producers else 1 << 60 for each in ids],
            duration_filter=duration,
        )
        response = stage.broker.ask(request, version)
        listed = sorted(
            (known.transactional_id, known.transaction_state, stage.id(known.producer_id))
            for known in response.transaction_states
            if known.transactional_id in ours
        )
        answers.append((version, states, ids, duration, response.error_code, response.unknown_state_filters, listed))
    return answers


def _producers(stage: Stage, *places: tuple[str, int]) -> Answers:
    request = DescribeProducersRequest(
        topics=[TopicRequest(name=name, partition_indexes=[index]) for name, index in places]
    )
    return [
        (
            topic.name,
            partition.partition_index,
            partition.error_code,
            partition.error_message,
            [
                (
                    stage.id(each.producer_id),
                    each.producer_epoch,
                    each.last_sequence,
                    min(each.last_timestamp, 1),
                    each.coordinator_epoch,
                    each.current_txn_start_offset,
                )
                for each in sorted(partition.active_producers, key=lambda each: each.producer_id)
            ],
        )
        for topic in stage.broker.ask(request, 0).topics
        for partition in topic.partitions
    ]


def producers(stage: Stage) -> Answers:
    """DescribeProducers as a transaction goes on."""
    producer, other = stage.producer(), stage.producer()
    answers = _producers(stage, stage.place(), (stage.topic, 7), ("nowhere", 0), ("not a name", 0), ("", 0))
    producer.add(stage.place())
    answers += _producers(stage, stage.place())
    producer.send(b"a", b"b", topic=stage.topic)
    answers += _producers(stage, stage.place())
    other.add(stage.place())
    other.send(b"a", topic=stage.topic)
    answers += _producers(stage, stage.place())
    producer.commit()
    settled(stage, producer)
    answers += _producers(stage, stage.place())
    other.init()
    settled(stage, other)
    answers += _producers(stage, stage.place())
    return answers


def markers(stage: Stage) -> Answers:
    """WriteTxnMarkers as another coordinator, or an administrator, sends it."""
    answers = [
        answer
        for version, commit in itertools.product((0, 1), (True, False))
        for answer in _markers(stage, version, commit=commit)
    ]
    response = stage.broker.ask(WriteTxnMarkersRequest(markers=[]), 1)
    return [*answers, ("no marker", response.markers)]


def _markers(stage: Stage, version: int, *, commit: bool) -> Iterator[tuple[Any, ...]]:
    producer = stage.producer()
    producer.add(stage.place())
    producer.send(b"a", topic=stage.topic)

    def known() -> list[Any]:
        return [
            (place[:3], [each for each in place[4] if each[0] == stage.id(producer.id)])
            for place in _producers(stage, stage.place(), stage.place(1))
        ]

    def written(label: str, *places: tuple[str, int], epoch: int = 0, coordinator_epoch: int = 0) -> tuple[Any, ...]:
        marker = WritableTxnMarker(
            producer_id=producer.id,
            producer_epoch=epoch,
            transaction_result=commit,
            topics=[WritableTxnMarkerTopic(name=name, partition_indexes=[index]) for name, index in places],
            coordinator_epoch=coordinator_epoch,
        )
        response = stage.broker.ask(WriteTxnMarkersRequest(markers=[marker]), version)
        results = sorted(
            (topic.name, partition.partition_index, partition.error_code)
            for each in response.markers
            for topic in each.topics
            for partition in topic.partitions
        )
        return version, commit, label, results, known()

    yield written("another partition too", stage.place(1), ("nowhere", 0), coordinator_epoch=3)
    yield written("the open one", stage.place(), coordinator_epoch=2)
    yield written("nothing is open", stage.place(), coordinator_epoch=2)
    yield written("an older coordinator", stage.place(), coordinator_epoch=1)
    yield written("a newer epoch", stage.place(), epoch=4, coordinator_epoch=2)
    yield written("an older epoch", stage.place(), epoch=3, coordinator_epoch=2)
    yield written("an older epoch and coordinator", stage.place(), epoch=3, coordinator_epoch=1)
    yield written("no partition")


def offsets(stage: Stage) -> Answers:
    """Offsets of a group in a transaction."""
    return [answer for version in END_VERSIONS for answer in _offsets(stage, version)]


def _offsets(stage: Stage, version: int) -> Iterator[tuple[Any, ...]]:
    producer = stage.second_epoch()
    group = stage.named()

    def committed(label: str, by: Producer = producer) -> tuple[Any, ...]:
        return version, label, by.commit_offset(group, 5, topic=stage.topic, version=version)

    yield committed("nothing is open")
    yield version, producer.add_offsets(group, version=version)
    for mistake, other in mistaken(stage, producer):
        yield committed(f"added: {mistake}", other)
    yield committed("open")
    yield committed("again")
    for mistake, other in mistaken(stage, producer):
        if mistake != "a newer epoch":  # Kafka takes it, and then cannot end the transaction
            yield committed(f"open: {mistake}", other)
    yield version, producer.commit(version=version)
    settled(stage, producer)
    yield committed("ended")
    for mistake, other in mistaken(stage, producer):
        yield committed(f"ended: {mistake}", other)


SCENARIOS: Final[tuple[Scenario, ...]] = (
    init_errors,
    mistaken_producers,
    partitions_that_cannot_be_added,
    batches_of_brokers,
    ends,
    fencing,
    continuing,
    writes,
    lists,
    producers,
    markers,
    offsets,
)
