"""Fetch sessions (KIP-227): the cache by itself, and complete fetches through it."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from minibroker.cluster.fetch_sessions import FetchSessionCache, FetchSessionError
from minibroker.server.requests.endpoints import endpoint
from minibroker.server.requests.targets import targets_of
from minibroker_protocol.api_keys import ApiKey
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.fetch import FetchResponse, PartitionData
from tests.broker.harness import Harness, Pending, batch, fetch_request, partitions_of, values_in

MINUTE = 60_000
NOT_FOUND = ErrorCode.FETCH_SESSION_ID_NOT_FOUND
WRONG_EPOCH = ErrorCode.INVALID_FETCH_SESSION_EPOCH


class Session:
    """A consumer with its own session."""

    def __init__(self, harness: Harness, *partitions: tuple[str, int, int]) -> None:
        self._harness = harness
        self.opened = harness.fetch(*partitions, session_epoch=0)
        self.id = self.opened.session_id
        self.epoch = 1

    def fetch(self, *partitions: tuple[str, int, int], **fields: Any) -> FetchResponse:
        """Send the next incremental fetch, which names new and changed partitions."""
        fields = {"session_id": self.id, "session_epoch": self.epoch, **fields}
        response = self._harness.fetch(*partitions, **fields)
        self.epoch += 1
        return response

    def fetched_partitions(self, *partitions: tuple[str, int, int], **fields: Any) -> list[tuple[str, int]]:
        """Return the partitions in the response to the next incremental fetch."""
        response = self.fetch(*partitions, **fields)
        assert (response.error_code, response.session_id) == (0, self.id)
        return partitions_of(response.responses)


@pytest.fixture(params=[12, 18])
def harness(harness: Harness, request: pytest.FixtureRequest) -> Harness:
    """Run each test with topic names and with topic ids."""
    harness.fetch_version = request.param
    return harness


@pytest.fixture
def many(harness: Harness) -> Harness:
    harness.create("many", 4)
    return harness


ALL = [("many", partition, 0) for partition in range(4)]
KEYS = [("many", partition) for partition in range(4)]


def test_a_full_fetch_with_epoch_0_opens_a_session_and_tells_every_partition(many: Harness) -> None:
    session = Session(many, *ALL)
    assert session.id > 0
    assert partitions_of(session.opened.responses) == KEYS
    assert len(many.core.cluster.first.fetch_sessions) == 1


def test_a_fetch_without_a_session_has_id_0(many: Harness) -> None:
    assert many.fetch(*ALL).session_id == 0
    assert len(many.core.cluster.first.fetch_sessions) == 0


@pytest.mark.parametrize("version", [4, 5, 6])
def test_versions_before_7_have_no_sessions(many: Harness, version: int) -> None:
    many.fetch(*ALL, version=version, session_epoch=-1)
    assert len(many.core.cluster.first.fetch_sessions) == 0


@pytest.mark.parametrize("version", range(7, 19))
def test_every_version_from_7_on_has_sessions(many: Harness, version: int) -> None:
    opened = many.fetch(*ALL, version=version, session_epoch=0)
    again = many.fetch(version=version, session_id=opened.session_id, session_epoch=1)
    assert (again.session_id, again.responses) == (opened.session_id, [])


def test_an_incremental_fetch_leaves_out_partitions_without_news(many: Harness) -> None:
    session = Session(many, *ALL)
    assert session.fetched_partitions() == []
    many.produce(batch(b"a"), "many", 2)
    assert session.fetched_partitions() == [("many", 2)]


def test_records_that_are_not_fetched_past_are_told_again(many: Harness) -> None:
    session = Session(many, *ALL)
    many.produce(batch(b"a"), "many", 2)
    assert session.fetched_partitions() == session.fetched_partitions() == [("many", 2)]
    assert session.fetched_partitions(("many", 2, 1)) == []


def test_what_an_incremental_fetch_names_replaces_what_the_session_knew(many: Harness) -> None:
    many.produce(batch(b"a"), "many", 1)
    many.produce(batch(b"b"), "many", 1)
    session = Session(many, *ALL)
    response = session.fetch(("many", 1, 1))
    assert [values_in(data.records) for data in response.responses[0].partitions] == [[(1, b"b")]]


def test_a_new_partition_joins_the_session_and_is_told_at_once(many: Harness) -> None:
    session = Session(many, ("many", 0, 0))
    assert session.fetched_partitions(("many", 3, 0)) == [("many", 3)]
    assert session.fetched_partitions() == []
    many.produce(batch(b"a"), "many", 3)
    assert session.fetched_partitions() == [("many", 3)]


def test_a_forgotten_partition_leaves_the_session(many: Harness) -> None:
    session = Session(many, *ALL)
    for partition in range(4):
        many.produce(batch(b"a"), "many", partition)
    assert session.fetched_partitions(forgotten={"many": [0, 2], "missing": [1]}) == [("many", 1), ("many", 3)]


def test_a_new_high_watermark_alone_is_news(many: Harness) -> None:
    many.produce(batch(b"a" * 100), "many", 0)
    session = Session(many, *ALL)
    many.produce(batch(b"b"), "many", 1)
    # Partition 0 uses all the bytes, so only the high watermark of partition 1 can be sent.
    response = session.fetch(max_bytes=1)
    partitions = {data.partition_index: data for data in response.responses[0].partitions}
    assert sorted(partitions) == [0, 1]
    assert (partitions[1].high_watermark, values_in(partitions[1].records)) == (1, [])


def test_a_new_log_start_offset_alone_is_news(many: Harness) -> None:
    many.produce(batch(b"a"), "many", 0)
    session = Session(many, ("many", 0, 1), ("many", 1, 0))
    many.topic("many").partitions[0].log.advance_log_start_offset(1)
    response = session.fetch()
    assert [data.log_start_offset for data in response.responses[0].partitions] == [1]
    assert session.fetched_partitions() == []


def test_partitions_with_errors_are_always_told(many: Harness) -> None:
    session = Session(many, *ALL, ("missing", 0, 0), ("many", 9, 0))
    for _ in range(3):
        assert sorted(session.fetched_partitions()) == [("many", 9), ("missing", 0)]


def test_the_end_of_an_error_is_told_even_when_nothing_else_is_new(many: Harness) -> None:
    many.fetch_version = 12  # A topic has no id before it exists.
    session = Session(many, ("later", 0, 0), ("many", 0, 0))
    assert session.fetched_partitions() == [("later", 0)]
    many.create("later")
    assert session.fetched_partitions() == [("later", 0)]
    assert session.fetched_partitions() == []


def test_partitions_that_were_served_go_to_the_end_so_that_nobody_starves(many: Harness) -> None:
    for partition in range(4):
        many.produce(batch(b"a" * 100), "many", partition)
    session = Session(many, *ALL)
    served: list[int] = []
    for _ in range(8):
        response = session.fetch(max_bytes=1)
        served += [data.partition_index for data in response.responses[0].partitions if values_in(data.records)]
    assert served == [0, 1, 2, 3, 0, 1, 2, 3]


def test_partitions_without_records_keep_their_place(many: Harness) -> None:
    many.produce(batch(b"a"), "many", 1)
    session = Session(many, *ALL)
    session.fetch()
    many.produce(batch(b"b"), "many", 0)
    assert session.fetched_partitions() == [("many", 0), ("many", 1)]
    assert session.fetched_partitions() == [("many", 0), ("many", 1)]


@pytest.mark.parametrize("epoch", [1, 5, -2])
def test_a_session_that_does_not_exist_is_not_found(many: Harness, epoch: int) -> None:
    for session_id in (0, 12_345):
        response = many.fetch(*ALL, session_id=session_id, session_epoch=epoch)
        assert (response.error_code, response.session_id, response.responses) == (NOT_FOUND, 0, [])


@pytest.mark.parametrize("epoch", [2, 7, -2])
def test_a_wrong_epoch_is_refused_and_leaves_the_session_as_it_was(many: Harness, epoch: int) -> None:
    session = Session(many, *ALL)
    response = many.fetch(session_id=session.id, session_epoch=epoch, forgotten={"many": [0, 1, 2, 3]})
    assert (response.error_code, response.session_id, response.responses) == (WRONG_EPOCH, 0, [])
    assert session.fetched_partitions() == []


def test_an_epoch_counts_once(many: Harness) -> None:
    session = Session(many, *ALL)
    session.fetch()
    assert many.fetch(session_id=session.id, session_epoch=1).error_code == WRONG_EPOCH


def test_epochs_go_on_at_1_after_the_largest(many: Harness) -> None:
    session = Session(many, *ALL)
    # Two billion fetches would take too long.
    many.core.cluster.first.fetch_sessions._sessions[session.id].epoch = session.epoch = 2**31 - 1
    assert session.fetched_partitions() == []
    session.epoch = 1
    assert session.fetched_partitions() == []


def test_epoch_minus_1_closes_the_session_and_answers_in_full(many: Harness) -> None:
    session = Session(many, *ALL)
    last = many.fetch(*ALL, session_id=session.id, session_epoch=-1)
    assert (last.session_id, partitions_of(last.responses)) == (0, KEYS)
    assert many.fetch(session_id=session.id, session_epoch=1).error_code == NOT_FOUND
    assert len(many.core.cluster.first.fetch_sessions) == 0


def test_a_full_fetch_in_the_name_of_a_session_opens_another_one(many: Harness) -> None:
    session = Session(many, *ALL)
    renewed = many.fetch(*ALL, session_id=session.id, session_epoch=0)
    assert renewed.session_id not in {0, session.id}
    assert many.fetch(session_id=session.id, session_epoch=1).error_code == NOT_FOUND
    assert len(many.core.cluster.first.fetch_sessions) == 1


def test_a_session_that_is_emptied_is_closed(many: Harness) -> None:
    session = Session(many, *ALL)
    response = session.fetch(forgotten={"many": [0, 1, 2, 3]})
    assert (response.error_code, response.session_id, response.responses) == (0, 0, [])
    assert many.fetch(session_id=session.id, session_epoch=2).error_code == NOT_FOUND


def test_a_session_fetch_waits_like_any_other_and_is_woken(many: Harness) -> None:
    session = Session(many, *ALL)
    request = fetch_request(session_id=session.id, session_epoch=1, max_wait_ms=500)
    pending = many.send(request, many.fetch_version)
    assert isinstance(pending, Pending)
    many.produce(batch(b"a"), "many", 3)
    assert partitions_of(pending.response.responses) == [("many", 3)]


def test_an_idle_session_fetch_takes_no_more_bytes_for_more_partitions(harness: Harness) -> None:
    harness.create("wide", 500)
    session = Session(harness, *(("wide", partition, 0) for partition in range(500)))
    response = session.fetch()
    assert response.responses == []


def test_a_deleted_topic_is_told_as_unknown(many: Harness) -> None:
    session = Session(many, ("many", 0, 0), ("t", 0, 0))
    many.delete("many")
    response = session.fetch()
    assert partitions_of(response.responses) == [("many", 0)]
    assert response.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_the_partitions_of_a_deleted_topic_are_released_before_the_next_fetch(many: Harness) -> None:
    session = Session(many, ("many", 0, 0), ("t", 0, 0))
    session.fetch()
    cached = many.core.cluster.first.fetch_sessions.get(session.id)
    assert cached is not None
    assert all(entry.partition is not None for entry in cached.partitions.values())
    many.delete("many")
    assert [entry.partition is not None for entry in cached.partitions.values()] == [False, True]
    assert partitions_of(session.fetch().responses) == [("many", 0)]


def test_a_waiting_fetch_is_refused_once_a_newer_one_of_its_session_has_come(many: Harness) -> None:
    session = Session(many, *ALL[:3])
    older = many.send(fetch_request(session_id=session.id, session_epoch=1, max_wait_ms=500), many.fetch_version)
    assert isinstance(older, Pending)
    session.epoch = 2
    assert session.fetched_partitions(ALL[3]) == [KEYS[3]]
    many.produce(batch(b"a"), "many", 0)
    response = older.response
    assert (response.error_code, response.session_id, response.responses) == (WRONG_EPOCH, session.id, [])
    assert session.fetched_partitions() == [KEYS[0]]


# The cache: at most `max.incremental.fetch.session.cache.slots` sessions.


class Cache:
    """A cache with a clock that a test moves."""

    def __init__(self, slots: int) -> None:
        self.sessions = FetchSessionCache(slots)
        self.now_ms = 0

    def open(self, size: int = 1) -> int:
        """Return the id of a new session for `size` partitions, or 0 if the cache is full."""
        partitions = [("t", partition, 0) for partition in range(size)]
        return self.sessions.context(fetch_request(*partitions, session_epoch=0), self.now_ms).session_id

    def use(self, session_id: int, epoch: int) -> None:
        self.sessions.context(fetch_request(session_id=session_id, session_epoch=epoch), self.now_ms)

    def has(self, session_id: int) -> bool:
        return session_id in self.sessions._sessions


@pytest.fixture
def cache() -> Cache:
    return Cache(2)


def test_ids_are_positive_and_differ() -> None:
    cache = Cache(1000)
    ids = {cache.open() for _ in range(1000)}
    assert len(ids) == 1000
    assert all(0 < session_id < 2**31 for session_id in ids)


def test_a_full_cache_opens_no_more_sessions(cache: Cache) -> None:
    first, second = cache.open(), cache.open()
    assert cache.open(size=100) == 0
    assert cache.has(first)
    assert cache.has(second)


def test_a_cache_without_slots_opens_none() -> None:
    assert Cache(0).open() == 0


def test_a_session_that_nobody_used_for_two_minutes_gives_way(cache: Cache) -> None:
    first, second = cache.open(size=100), cache.open(size=100)
    cache.now_ms = 2 * MINUTE
    assert cache.open() == 0
    cache.use(first, 1)
    cache.now_ms += 1
    third = cache.open()
    assert third > 0
    assert cache.has(first)
    assert not cache.has(second)


def test_an_old_session_gives_way_to_a_larger_one_only(cache: Cache) -> None:
    small, large = cache.open(size=3), cache.open(size=5)
    for epoch in (1, 2):
        cache.now_ms += 90_000
        cache.use(small, epoch)
        cache.use(large, epoch)
    assert cache.open(size=3) == 0
    assert cache.open(size=4) > 0
    assert not cache.has(small)
    assert cache.has(large)


def test_a_young_session_does_not_give_way(cache: Cache) -> None:
    cache.open(size=1)
    cache.open(size=1)
    cache.now_ms = MINUTE
    assert cache.open(size=1000) == 0


def test_a_closed_session_leaves_its_slot(cache: Cache) -> None:
    first, _ = cache.open(), cache.open()
    cache.sessions.context(fetch_request(session_id=first, session_epoch=-1), 0)
    assert cache.open() > 0


def test_an_evicted_session_is_not_found(cache: Cache) -> None:
    first, _ = cache.open(), cache.open()
    cache.now_ms = 3 * MINUTE
    cache.open()
    with pytest.raises(FetchSessionError) as caught:
        cache.use(first, 1)
    assert caught.value.code == NOT_FOUND


def test_the_number_of_slots_is_configured(configured: Callable[[dict[str, str]], Harness]) -> None:
    harness = configured({"max.incremental.fetch.session.cache.slots": "1"})
    assert harness.fetch(("t", 0, 0), session_epoch=0).session_id > 0
    full = harness.fetch(("t", 0, 0), session_epoch=0)
    assert (full.error_code, full.session_id, partitions_of(full.responses)) == (0, 0, [("t", 0)])


def test_an_answer_is_news_only_once_and_again_after_an_error() -> None:
    cache = Cache(1)
    session_id = cache.open()
    context = cache.sessions.context(fetch_request(session_id=session_id, session_epoch=1), 0)

    def is_news(error_code: int) -> bool:
        offsets: dict[str, Any] = {"high_watermark": 5, "log_start_offset": 0}
        data = PartitionData(partition_index=0, error_code=error_code, records=b"", **offsets)
        return list(context.select({("t", 0): data})) == [("t", 0)]

    assert [is_news(code) for code in (0, 0, 1, 1, 0, 0)] == [True, False, True, True, True, False]


@pytest.mark.parametrize(("first", "second"), [(12, 13), (18, 12), (7, 18)])
def test_a_session_stays_with_names_or_with_ids(harness: Harness, first: int, second: int) -> None:
    opened = harness.fetch(("t", 0, 0), version=first, session_epoch=0)
    fields = {"session_id": opened.session_id, "session_epoch": 1}
    refused = harness.fetch(version=second, **fields)
    assert (refused.error_code, refused.session_id) == (ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, 0)
    assert harness.fetch(version=first, **fields).error_code == 0


def test_an_id_that_nobody_has_is_told_so_and_does_not_end_the_wait(harness: Harness) -> None:
    harness.produce(batch(b"a"))
    known, unknown = harness.fetch(("none", 0, 0), ("t", 0, 0), version=13).responses
    assert [result.error_code for result in (*known.partitions, *unknown.partitions)] == [0, ErrorCode.UNKNOWN_TOPIC_ID]
    assert isinstance(harness.send(fetch_request(("none", 0, 0), ("t", 0, 1)), 13), Pending)


def test_a_name_that_another_topic_has_now_is_not_the_one_that_a_session_has_known(harness: Harness) -> None:
    session = Session(harness, ("t", 0, 0))
    by_id = harness.fetch_version >= 13
    harness.delete("t")
    harness.create("t")
    codes = [partition.error_code for topic in session.fetch().responses for partition in topic.partitions]
    # A session with names reads the new topic, which is as empty as the old one.
    assert codes == ([ErrorCode.INCONSISTENT_TOPIC_ID] if by_id else [])


def test_a_partition_whose_batch_did_not_fit_comes_first_the_next_time(many: Harness) -> None:
    for partition in range(2):
        many.produce(batch(b"a"), "many", partition)
    session = Session(many, *ALL)
    size = len(batch(b"a"))
    for index, positions in enumerate([[("many", 0, 0), ("many", 1, 0)], [("many", 0, 1)]]):
        (data,) = session.fetch(*positions, max_bytes=size + 10).responses[0].partitions
        assert (data.partition_index, values_in(data.records)) == (index, [(0, b"a")])


def test_faults_and_the_journal_know_the_partitions_of_a_session_after_each_change(many: Harness) -> None:
    node = many.session().node
    call: Any = SimpleNamespace(node=node, core=many.core)
    session = Session(many, *ALL[:3])

    def targets(**fields: Any) -> list[tuple[str | None, int | None]]:
        request = fetch_request(session_id=session.id, session_epoch=session.epoch, **fields)
        many._name_by_id(request, many.fetch_version)
        return [target[:2] for target in targets_of(endpoint(ApiKey.FETCH).names, request, call)]

    assert targets() == KEYS[:3]
    cached = node.fetch_sessions.get(session.id)
    assert cached is not None
    cached_targets = cached.targets
    session.fetch()
    assert targets() == KEYS[:3]
    assert cached.targets is cached_targets  # Nothing has changed, so the targets are not created again.
    assert targets(forgotten={"many": [1]}) == [KEYS[0], KEYS[2]]
    session.fetch(ALL[3])
    assert targets() == KEYS
    many.produce(batch(b"a"), "many", 0)
    session.fetch()  # Served partitions move to the end.
    assert targets() == [*KEYS[1:], KEYS[0]]
    session.fetch(forgotten={"many": [1]})
    assert targets() == [*KEYS[2:], KEYS[0]]
    many.delete("many")
    by_name = many.fetch_version < 13
    assert targets() == [(name if by_name else None, index) for name, index in (*KEYS[2:], KEYS[0])]
