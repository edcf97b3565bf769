"""The torture's own judgement: what it must find wrong, and what a crash may leave."""

import random
from collections.abc import Callable, Sequence

import pytest

from minibroker_protocol.errors import CorruptRecordError
from minibroker_protocol.records.builder import build_batch
from minibroker_protocol.records.header import CompressionCodec, stamp
from minibroker_protocol.records.record import NewRecord
from tests.torture.ledger import BatchLedger, Ledger, RecordLedger, TortureError, View, new_ledger
from tests.torture.workload import MAGIC_V1, MAGIC_V2, TOPICS, Mint, Sent, Topic, facts_of

PLAIN = Topic("plain", 1, {})
COMPACTED = Topic("compacted", 1, {"cleanup.policy": "compact"})
RETAINED = Topic("retained", 1, {"retention.bytes": "1000"})
OLD = Topic("old", 1, {}, feed=(MAGIC_V1,), stored=MAGIC_V1)
RAISED = Topic("raised", 1, {}, feed=(MAGIC_V1,))


def at(sent: Sent, offset: int) -> bytes:
    """The batch as it lies in a log."""
    data = bytearray(sent.data)
    stamp(data, offset, 0)
    return bytes(data)


def view(*placed: tuple[Sent, int], start: int = 0, end: int | None = None) -> View:
    """A log that holds these batches, which end where it does unless it is said otherwise."""
    last = placed[-1][1] + placed[-1][0].count if placed else start
    return View(start, last if end is None else end, [at(sent, offset) for sent, offset in placed])


def a_batch(sequence: int, *values: bytes, time: int = 0, producer_id: int = 7) -> Sent:
    """A batch of an idempotent producer."""
    records = [NewRecord(None, value, time + number) for number, value in enumerate(values)]
    data = build_batch(records, producer_id=producer_id, producer_epoch=0, base_sequence=sequence)
    facts = [facts_of(record) for record in records]
    return Sent(bytes(data), facts, producer_id=producer_id, sequence=sequence)


def by_key(sequence: int, *pairs: tuple[bytes, bytes | None], time: int = 0) -> Sent:
    """A batch of records with keys, for a compacted topic."""
    records = [NewRecord(key, value, time + number) for number, (key, value) in enumerate(pairs)]
    data = build_batch(records, producer_id=7, producer_epoch=0, base_sequence=sequence)
    return Sent(bytes(data), [facts_of(record) for record in records], producer_id=7, sequence=sequence)


def acknowledged(ledger: Ledger, *batches: Sent) -> list[tuple[Sent, int]]:
    """Send batches and have them acknowledged one behind the other; returns where they are."""
    placed: list[tuple[Sent, int]] = []
    for sent in batches:
        ledger.sent(sent)
        ledger.acked(sent, ledger.acked_end)
        placed.append((sent, sent.base_offset or 0))
    return placed


def test_a_log_that_holds_what_was_acknowledged_is_right() -> None:
    ledger = BatchLedger(PLAIN, 0)
    placed = acknowledged(ledger, a_batch(0, b"a", b"b"), a_batch(2, b"c"))
    ledger.check(view(*placed))
    assert ledger.counts["verified records"] == 3


def without_the_last(placed: list[tuple[Sent, int]]) -> View:
    return view(*placed[:-1])


def without_the_first(placed: list[tuple[Sent, int]]) -> View:
    return view(*placed[1:], start=placed[1][1])


def without_the_second(placed: list[tuple[Sent, int]]) -> View:
    return view(placed[0], *placed[2:])


def with_one_doubled(placed: list[tuple[Sent, int]]) -> View:
    return view(*placed, (placed[-1][0], placed[-1][1] + placed[-1][0].count))


def with_one_byte_changed(placed: list[tuple[Sent, int]]) -> View:
    data = bytearray(at(*placed[0]))
    data[-2] ^= 1
    return View(0, 6, [bytes(data), *(at(*each) for each in placed[1:])])


def with_a_strangers_batch(placed: list[tuple[Sent, int]]) -> View:
    return view(*placed, (a_batch(0, b"stranger", producer_id=9), 6))


def with_an_end_beyond_the_last_batch(placed: list[tuple[Sent, int]]) -> View:
    return view(*placed, end=7)


def with_two_exchanged(placed: list[tuple[Sent, int]]) -> View:
    return view((placed[1][0], 0), (placed[0][0], 2), *placed[2:])


WRONG = [
    without_the_last,
    without_the_first,
    without_the_second,
    with_one_doubled,
    with_one_byte_changed,
    with_a_strangers_batch,
    with_an_end_beyond_the_last_batch,
    with_two_exchanged,
]


@pytest.mark.parametrize("kind", [BatchLedger, RecordLedger])
@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.__name__)
def test_a_wrong_log_is_found_out(
    kind: Callable[[Topic, int], Ledger], wrong: Callable[[list[tuple[Sent, int]]], View]
) -> None:
    ledger = kind(PLAIN, 0)
    placed = acknowledged(
        ledger, a_batch(0, b"a", b"b"), a_batch(2, b"c", b"d", time=10), a_batch(4, b"e", b"f", time=20)
    )
    with pytest.raises((TortureError, CorruptRecordError)):
        ledger.check(wrong(placed))


@pytest.mark.parametrize("kind", [BatchLedger, RecordLedger])
def test_a_batch_without_an_answer_may_be_there_once_or_not(kind: Callable[[Topic, int], Ledger]) -> None:
    ledger = kind(PLAIN, 0)
    placed = acknowledged(ledger, a_batch(0, b"a"))
    written, lost = a_batch(1, b"b", b"c", time=10), a_batch(3, b"d", time=20)
    ledger.sent(written)
    ledger.sent(lost)
    ledger.check(view(*placed, (written, 1)))
    assert ledger.acked_end == 3
    with pytest.raises(TortureError, match=r"1 was acknowledged|2 was acknowledged"):
        ledger.check(view(*placed))
    ledger.acked(written, 1)
    ledger.acked(lost, 3)
    ledger.check(view(*placed, (written, 1), (lost, 3)))


def test_a_batch_that_is_there_has_to_be_answered_with_its_offset() -> None:
    ledger = BatchLedger(PLAIN, 0)
    written = a_batch(0, b"a")
    ledger.sent(written)
    ledger.check(view((written, 0)))
    with pytest.raises(TortureError, match="lies at offset 0 was answered with 1"):
        ledger.acked(written, 1)


def test_two_batches_at_one_offset_are_found_out_by_their_answers() -> None:
    ledger = BatchLedger(PLAIN, 0)
    acknowledged(ledger, a_batch(0, b"a"))
    other = a_batch(1, b"b")
    ledger.sent(other)
    with pytest.raises(TortureError, match="two batches"):
        ledger.acked(other, 0)


def test_batches_of_one_producer_out_of_their_order_are_found_out() -> None:
    ledger = BatchLedger(PLAIN, 0)
    first, second, third = a_batch(0, b"a"), a_batch(1, b"b"), a_batch(2, b"c")
    for sent in (first, second, third):
        ledger.sent(sent)
    with pytest.raises(TortureError, match="sequence 2, where 1 was due"):
        ledger.check(view((first, 0), (third, 1)))


def test_what_a_reader_has_seen_has_to_stay() -> None:
    ledger = BatchLedger(PLAIN, 0)
    seen = a_batch(0, b"a")
    ledger.sent(seen)
    assert ledger.note(memoryview(at(seen, 0))) == 1
    with pytest.raises(TortureError):
        ledger.check(view(end=0))


def test_a_log_with_retention_may_begin_later_but_may_have_no_hole() -> None:
    ledger = BatchLedger(RETAINED, 0)
    placed = acknowledged(ledger, *(a_batch(number, b"%d" % number) for number in range(5)))
    ledger.check(view(*placed[2:], start=2))
    with pytest.raises(TortureError, match="began at 2 and begins at 1 again"):
        ledger.check(view(*placed[1:], start=1))
    with pytest.raises(TortureError, match="where 3 was due"):
        ledger.check(view(placed[2], placed[4], start=2))


def test_a_compacted_log_may_lose_what_has_a_newer_value_and_nothing_else() -> None:
    def made() -> list[Sent]:
        values = by_key(0, (b"k", b"1"), (b"j", b"1"))
        return [values, by_key(2, (b"k", b"2"), time=10), by_key(3, (b"j", None), time=20)]

    def ledger() -> RecordLedger:
        known = RecordLedger(COMPACTED, 0)
        acknowledged(known, *made())
        return known

    batches, rest = made(), by_key(1, (b"j", b"1"), time=1)

    whole = view((batches[0], 0), (batches[1], 2), (batches[2], 3))
    ledger().check(whole)
    cleaned = ledger()
    cleaned.check(view((rest, 1), (batches[1], 2), (batches[2], 3)))
    assert cleaned.counts["offsets compacted away"] == 1
    with pytest.raises(TortureError, match="compacted away and are there again"):
        cleaned.check(whole)
    ledger().check(view((batches[1], 2), (batches[2], 3)))
    ledger().check(view((batches[1], 2), end=4))
    with pytest.raises(TortureError, match="the newest value of b'k'"):
        ledger().check(view((batches[0], 0), (batches[2], 3)))
    with pytest.raises(TortureError, match="deleted at offset 3 and has come back"):
        ledger().check(view((batches[0], 0), (batches[1], 2), end=4))
    with pytest.raises(TortureError, match="holds"):
        ledger().check(view((batches[0], 1), (batches[2], 3)))


def test_a_set_of_plain_old_messages_may_be_cut_between_them_and_a_wrapper_not() -> None:
    rng = random.Random(3)
    mint = Mint(rng, 1_700_000_000_000)
    seen = set[bool]()
    while len(seen) < 2:
        sent = mint.message_set(OLD, MAGIC_V1)
        if sent.count < 2:
            continue
        seen.add(sent.is_whole)
        ledger = RecordLedger(OLD, 0)
        ledger.sent(sent)
        cut = Sent(sent.data, sent.facts[:1])
        first = build_batch([NewRecord(cut.facts[0].key, cut.facts[0].value, cut.facts[0].timestamp)])
        part = View(0, 1, [bytes(first)])
        if sent.is_whole:
            with pytest.raises(TortureError):
                ledger.check(part)
        else:
            ledger.check(part)
            assert ledger.acked_end == 1


def test_what_is_given_up_must_not_turn_up_later() -> None:
    ledger = RecordLedger(RAISED, 0)
    lost = a_batch(0, b"a")
    ledger.sent(lost)
    ledger.check(view(end=0))
    ledger.forget(lost)
    with pytest.raises(TortureError, match="no producer sent"):
        ledger.check(view((lost, 0)))


@pytest.mark.parametrize("kind", [BatchLedger, RecordLedger])
def test_the_first_record_of_a_moment_is_known(kind: Callable[[Topic, int], Ledger]) -> None:
    ledger = kind(PLAIN, 0)
    batches = [a_batch(0, b"a", b"b", time=100), a_batch(2, b"c", b"d", time=50), a_batch(4, b"e", b"f", time=200)]
    ledger.check(view(*acknowledged(ledger, *batches)))
    assert [ledger.first_at(moment, start=0) for moment in (0, 100, 101, 102, 201, 202)] == [0, 0, 1, 4, 5, -1]
    assert ledger.first_at(0, start=1) == 1
    assert [ledger.timestamp_of(offset) for offset in (1, 2, 5, 6)] == [101, 50, 201, None]


@pytest.mark.parametrize("topic", TOPICS, ids=lambda topic: topic.name)
def test_no_two_records_are_alike_and_batches_are_as_large_as_their_topic_says(topic: Topic) -> None:
    mint = Mint(random.Random(1), 1_700_000_000_001)
    made: Sequence[Sent] = [
        mint.batch(topic, producer_id=-1, sequence=-1) if magic == MAGIC_V2 else mint.message_set(topic, magic)
        for magic in topic.feed
        for _ in range(30)
    ]
    facts = [each for sent in made for each in sent.facts]
    assert len(set(facts)) == len(facts)
    assert all(each.timestamp % 2 == 0 or each.timestamp == -1 for each in facts)
    codecs = {CompressionCodec(sent.data[22] & 7) for sent in made if sent.data[16] == MAGIC_V2}
    assert len(codecs) > 2 or topic.feed[-1] != MAGIC_V2
    assert isinstance(new_ledger(topic, 0), RecordLedger if topic.is_by_record else BatchLedger)


def test_a_batch_that_was_deleted_unanswered_may_come_again_behind_the_start() -> None:
    ledger = BatchLedger(RETAINED, 0)
    placed = acknowledged(ledger, a_batch(0, b"a"))
    deleted = a_batch(1, b"b")
    ledger.sent(deleted)
    ledger.check(view(*placed, (deleted, 1)))
    ledger.check(view(start=2, end=2))
    ledger.check(view((deleted, 2), start=2))
    with pytest.raises(TortureError, match="sequence 1, where 2 was due"):
        ledger.check(view((deleted, 2), (deleted, 3), start=2))


def test_a_start_within_a_batch_leaves_the_batch_whole() -> None:
    ledger = BatchLedger(Topic("trimmed", 1, {}, is_trimmed=True), 0)
    placed = acknowledged(ledger, a_batch(0, b"a"), a_batch(1, b"b", b"c", b"d"))
    ledger.asked_start = 3
    ledger.check(view(*placed[1:], start=3))
    with pytest.raises(TortureError, match="only 3 offsets were deleted"):
        ledger.check(view(start=4, end=4))
    with pytest.raises(TortureError, match="its last batch before 3"):
        ledger.check(view(start=3, end=4))
