"""Requests of Kafka 4's producers to a transaction coordinator, whose epochs go up with each end (KIP-890).

As in `transaction_scenarios`. Kafka answers before the markers are written: a scenario goes on when they are.
"""

from typing import Any, Final

from minibroker_protocol.messages.transactions import (
    EndTxnRequest,
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.broker.coordinators.transactions.producer import FIRST_THAT_ADDS, Producer
from tests.kafka.transaction_scenarios import Answers, Scenario, mistaken, settled
from tests.kafka.transaction_stage import Stage
from tests.patience import eventually

_CONCURRENT_TRANSACTIONS: Final = 51
_RAISES: Final = 5
"""The version of EndTxn that raises the epoch."""


def _end(stage: Stage, producer: Producer, *, commit: bool, goes_on: bool = True) -> tuple[Any, ...]:
    """End in the raising version; what was answered, and the state then. The producer `goes_on` in the new epoch."""
    request = EndTxnRequest(
        transactional_id=producer.transactional_id,
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        committed=commit,
    )
    answer = stage.broker.ask(request, _RAISES)
    settled(stage, producer)
    if goes_on and answer.error_code == 0:
        producer.id, producer.epoch = answer.producer_id, answer.producer_epoch
        producer.sequences.clear()
    return answer.error_code, stage.id(answer.producer_id), answer.producer_epoch, stage.state_of(producer)


def _end_without(stage: Stage, producer: Producer, *, commit: bool, version: int = 4) -> tuple[Any, ...]:
    code = producer.end(commit=commit, version=version)
    settled(stage, producer)
    return code, producer.epoch, stage.state_of(producer)


def _send(stage: Stage, producer: Producer, version: int = FIRST_THAT_ADDS) -> int:
    return producer.send(b"x", topic=stage.topic, version=version).error_code


def ends_that_raise_the_epoch(stage: Stage) -> Answers:
    """Commits and aborts, repeated, the other way round, in old epochs and of nothing."""
    answers: Answers = []
    for commit in (True, False):
        fresh = stage.producer()
        answers.append(("nothing yet", commit, _end(stage, fresh, commit=commit)))
        producer = stage.producer()
        answers.append((_send(stage, producer), stage.state_of(producer)))
        before = producer.id, producer.epoch
        answers.append(_end(stage, producer, commit=commit))
        after = producer.id, producer.epoch
        producer.id, producer.epoch = before
        answers += [
            ("repeated", _end(stage, producer, commit=commit, goes_on=False)),
            ("the other way", _end(stage, producer, commit=not commit, goes_on=False)),
            ("sent in the old epoch", _send(stage, producer)),
            ("ended in the old epoch", _end_without(stage, producer, commit=commit)),
        ]
        producer.id, producer.epoch = after
        answers += [
            ("of nothing", _end(stage, producer, commit=commit)),
            ("of nothing, the other way", _end(stage, producer, commit=not commit)),
            (_send(stage, producer), _end(stage, producer, commit=not commit)),
            ("aborted nothing", _end(stage, producer, commit=False)),
            ("aborted nothing again", _end(stage, producer, commit=False)),
            ("committed nothing", _end(stage, producer, commit=True)),
            (producer.init(), stage.id(producer.id), producer.epoch, stage.state_of(producer)),
            (producer.init(keeps_id=True), stage.id(producer.id), producer.epoch, stage.state_of(producer)),
            _end(stage, producer, commit=commit, goes_on=False),
        ]
    return answers


def ends_of_both_kinds(stage: Stage) -> Answers:
    """A producer that raises its epoch now and then."""
    answers: Answers = []
    older = stage.producer()
    answers += [
        (older.add(stage.place()), _send(stage, older, 11), _end_without(stage, older, commit=True)),
        _end(stage, older, commit=True, goes_on=False),
        _end(stage, older, commit=False, goes_on=False),
    ]
    producer = stage.producer()
    answers += [
        (producer.add(stage.place()), _send(stage, producer, 11), _end(stage, producer, commit=True)),
        (_send(stage, producer), _end_without(stage, producer, commit=True)),
        _end_without(stage, producer, commit=True),
        _end_without(stage, producer, commit=True, version=3),
        (producer.add(stage.place()), producer.add_offsets("g")),
        (producer.commit_offset("other", 5, topic=stage.topic, version=5),),
        _end(stage, producer, commit=True),
    ]
    return answers


def mistaken_ends(stage: Stage) -> Answers:
    """Ends by producers that the transaction does not belong to, while it is open and afterwards."""
    known = stage.second_epoch()
    answers: Answers = [(_send(stage, known), stage.state_of(known))]
    for is_open in (True, False):
        for mistake, producer in mistaken(stage, known):
            if is_open:
                answers.append((mistake, _send(stage, producer)))
            for commit in (True, False):
                code, *identity = _end(stage, producer, commit=commit, goes_on=False)
                answers.append((mistake, is_open, commit, code, identity[:2], stage.state_of(known)))
        answers.append(_end(stage, known, commit=True))
    return answers


def a_producer_that_is_fenced(stage: Stage) -> Answers:
    """Its transaction is aborted when another one takes its place."""
    fenced = stage.producer()
    answers: Answers = [(_send(stage, fenced),)]
    heir = Producer(stage.broker, fenced.transactional_id, init=False)
    eventually(lambda: heir.init() != _CONCURRENT_TRANSACTIONS)
    answers += [
        (stage.id(heir.id) == stage.id(fenced.id), stage.state_of(heir)),
        _end(stage, fenced, commit=True, goes_on=False),
        _end(stage, fenced, commit=False, goes_on=False),
        (_send(stage, fenced),),
    ]
    return answers


def markers_of_each_version(stage: Stage) -> Answers:
    """Markers in the producer's epoch and in others, with the version of its transaction or without."""
    answers: Answers = []
    for version, transaction_version in ((1, 0), (2, 0), (2, 1), (2, 2)):
        producer = stage.producer()
        answers.append((_send(stage, producer),))
        for step in (0, 1, 0, 1, 2):
            topics = [
                WritableTxnMarkerTopic(name=stage.topic, partition_indexes=[0, 1, 5]),
                WritableTxnMarkerTopic(name="nowhere", partition_indexes=[0]),
            ]
            marker = WritableTxnMarker(
                producer_id=producer.id,
                producer_epoch=producer.epoch + step,
                transaction_result=True,
                coordinator_epoch=0,
                transaction_version=transaction_version,
                topics=topics,
            )
            (written,) = stage.broker.ask(WriteTxnMarkersRequest(markers=[marker]), version).markers
            found = [
                (topic.name, sorted((each.partition_index, each.error_code) for each in topic.partitions))
                for topic in sorted(written.topics, key=lambda topic: topic.name)
            ]
            answers.append((version, transaction_version, step, found))
    return answers


SCENARIOS: Final[tuple[Scenario, ...]] = (
    ends_that_raise_the_epoch,
    ends_of_both_kinds,
    mistaken_ends,
    a_producer_that_is_fenced,
    markers_of_each_version,
)
