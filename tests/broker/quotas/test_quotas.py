"""Clients over their quota are throttled, and get the throttle time.

Rates are computed as in Kafka.
"""

from typing import Any

import pytest

from minibroker.server import quotas as server_quotas
from minibroker.server.rates import Rate, TokenBucket
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.metadata import MetadataRequest
from minibroker_protocol.messages.topics import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
)
from tests.broker.coordinators.share_partitions.members import ACCEPT, ShareMember, acquired, begin
from tests.broker.harness import Harness, batch, create_request, fetch_request, produce_request
from tests.broker.quotas.asking import Metered, set_quota

RECORDS = batch(b"x" * 20_000)


def produced_by(harness: Harness, client_id: str = "c", user: str = "ANONYMOUS") -> int:
    """Return how long a client is muted after producing 20 KB."""
    response, muted = Metered(harness, client_id, user).ask(produce_request(RECORDS), 9)
    assert response.throttle_time_ms == muted
    return muted


def test_nobody_is_metered_while_there_are_no_quotas(harness: Harness) -> None:
    is_metered = [harness.services.quotas is not None]
    for limit in (1000, None):
        set_quota(harness, {"client-id": "c"}, producer_byte_rate=limit)
        is_metered.append(harness.services.quotas is not None)
    assert is_metered == [False, True, False]


def test_a_producer_waits_until_its_rate_is_right(harness: Harness) -> None:
    set_quota(harness, {"client-id": "c"}, producer_byte_rate=1000)
    wait = produced_by(harness)
    assert 10_000 < wait < 10_400  # 20 KB take 20 s, and 10 s are assumed to have passed.
    assert produced_by(harness, "another") == 0


def test_a_wait_that_is_over_is_over(harness: Harness) -> None:
    set_quota(harness, {"client-id": "c"}, producer_byte_rate=4000)
    assert produced_by(harness) == 0
    harness.clock.advance(20_000)
    assert produced_by(harness) == 0


def test_connections_of_one_client_share_its_quota(harness: Harness) -> None:
    set_quota(harness, {"client-id": "c"}, producer_byte_rate=2500)
    assert produced_by(harness) == 0
    assert produced_by(harness) > 5000


@pytest.mark.parametrize(
    ("more", "less"),
    [
        ({"user": "u", "client-id": "c"}, {"user": "u", "client-id": None}),
        ({"user": "u", "client-id": None}, {"user": "u"}),
        ({"user": "u"}, {"user": None, "client-id": "c"}),
        ({"user": None, "client-id": "c"}, {"user": None, "client-id": None}),
        ({"user": None, "client-id": None}, {"user": None}),
        ({"user": None}, {"client-id": "c"}),
        ({"client-id": "c"}, {"client-id": None}),
    ],
)
def test_the_more_particular_quota_counts(
    more: dict[str, str | None], less: dict[str, str | None], harness: Harness
) -> None:
    set_quota(harness, less, producer_byte_rate=1)
    set_quota(harness, more, producer_byte_rate=1_000_000)
    assert produced_by(harness, "c", "u") == 0
    set_quota(harness, more, producer_byte_rate=None)
    assert produced_by(harness, "c", "u") > 0


def test_all_clients_of_a_user_share_the_users_quota(harness: Harness) -> None:
    set_quota(harness, {"user": None}, producer_byte_rate=2500)
    assert produced_by(harness, "a", "u") == 0
    assert produced_by(harness, "b", "other") == 0
    assert produced_by(harness, "b", "u") > 0


def test_a_producer_without_acks_is_muted_though_it_is_told_nothing(harness: Harness) -> None:
    set_quota(harness, {"client-id": "c"}, producer_byte_rate=1000)
    response, muted = Metered(harness).ask(produce_request(RECORDS, acks=0), 9)
    assert response is None
    assert muted > 10_000


def test_a_consumer_that_is_over_its_quota_is_given_nothing_and_told_to_wait(harness: Harness) -> None:
    harness.produce(RECORDS)
    set_quota(harness, {"client-id": "c"}, consumer_byte_rate=1500)
    response, muted = Metered(harness).ask(fetch_request(("t", 0, 0)), 12)
    assert response.responses == []
    assert response.throttle_time_ms == muted > 3000


def test_a_share_consumer_that_is_over_its_quota_keeps_its_records_and_waits(harness: Harness) -> None:
    begin(harness)
    harness.produce(RECORDS)
    set_quota(harness, {"client-id": "c"}, consumer_byte_rate=1500)
    member = ShareMember(harness)
    client = Metered(harness)
    response, muted = client.ask(member.request(("t", 0)), 2)
    (topic,) = response.responses
    assert acquired(topic.partitions[0]) == [(0, 0, 1)]
    assert response.throttle_time_ms == muted > 3000
    member.epoch = 1
    released, _ = client.ask(member.request(("t", 0), acks=[(0, 0, ACCEPT)]), 2)
    assert [partition.acknowledge_error_code for topic in released.responses for partition in topic.partitions] == [0]


def test_what_was_held_back_counts_for_nothing(harness: Harness) -> None:
    harness.produce(RECORDS)
    set_quota(harness, {"client-id": "c"}, consumer_byte_rate=1500)
    client = Metered(harness)
    waits = [client.ask(fetch_request(("t", 0, 0)), 12)[1] for _ in range(3)]
    assert len(set(waits)) == 1


def test_a_fetch_asks_for_no_more_than_the_quota_has(harness: Harness) -> None:
    for _ in range(5):
        harness.produce(RECORDS)
    set_quota(harness, {"client-id": "c"}, consumer_byte_rate=4200)
    response, muted = Metered(harness).ask(fetch_request(("t", 0, 0)), 12)
    assert muted == 0
    (topic,) = response.responses
    assert 40_000 < topic.partitions[0].records.size <= 42_000


def test_requests_cost_time_and_may_be_limited(harness: Harness) -> None:
    set_quota(harness, {"client-id": "c"}, request_percentage=0.000001)
    response, muted = Metered(harness).ask(MetadataRequest(topics=None), 12)
    assert response.throttle_time_ms == muted == 1000  # The throttle time is at most one step of the window.


def test_a_client_that_makes_too_many_partitions_is_refused(harness: Harness) -> None:
    set_quota(harness, {"user": None}, controller_mutation_rate=1)
    client = Metered(harness)

    def create(name: str, version: int) -> tuple[int, int, int]:
        response, muted = client.ask(create_request(name, partitions=12), version)
        return response.topics[0].error_code, response.throttle_time_ms, muted

    assert create("one", 7) == (ErrorCode.NONE, 0, 0)
    assert create("two", 7) == (ErrorCode.THROTTLING_QUOTA_EXCEEDED, 1000, 1000)
    harness.clock.advance(1000)
    assert create("two", 5) == (ErrorCode.NONE, 12_000, 12_000)

    grow = CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="one", count=13)], timeout_ms=1000)
    response, _ = client.ask(grow, 3)
    assert response.results[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    response, _ = client.ask(DeleteTopicsRequest(topic_names=["one"], timeout_ms=1000), 5)
    assert response.responses[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert harness.core.topics.get("one") is not None
    response, muted = client.ask(DeleteTopicsRequest(topic_names=["one"], timeout_ms=1000), 4)
    assert response.responses[0].error_code == ErrorCode.NONE
    assert muted == response.throttle_time_ms == 24_000


def test_quotas_outlive_the_run(harness: Harness) -> None:
    set_quota(harness, {"client-id": "c"}, producer_byte_rate=1000)
    harness.close()
    harness.start()
    assert produced_by(harness) > 0


def test_clients_that_change_their_ids_are_remembered_in_bounded_memory(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_quotas, "_FORGET_THRESHOLD", 10)
    monkeypatch.setattr(server_quotas, "_MAX_REMEMBERED", 40)
    set_quota(harness, {"client-id": None}, producer_byte_rate=1000, controller_mutation_rate=1000)
    quotas: Any = harness.services.quotas  # The remembered clients are private.
    for number in range(100):
        client = Metered(harness, f"{number}-" + "x" * 1000)
        client.ask(produce_request(RECORDS), 9)
        client.ask(CreateTopicsRequest(topics=[], timeout_ms=1000), 7)
        quotas.charge_mutation(client.session, client.client_id, 1, strict=False)
        assert len(quotas._rates) <= 40
        assert len(quotas._buckets) <= 40
        assert produced_by(harness, client.client_id) > 0
        harness.clock.advance(1)
    assert max(len(client_id) for _, (_, client_id) in quotas._rates) < 1000


SAMPLES, STEP_MS = 11, 1000


def test_a_rate_is_taken_over_the_whole_window_from_its_first_moment() -> None:
    rate = Rate(SAMPLES, STEP_MS)
    rate.record(5000, 0)
    assert rate.measure(0) == 500  # Ten whole steps are assumed to have passed.
    assert rate.measure(5_000) == 500
    assert rate.measure(10_500) == pytest.approx(5000 / 10.5)
    assert rate.measure(11_000) == 0  # The value is older than the window.


def test_a_wait_brings_the_rate_down_to_the_limit() -> None:
    rate = Rate(SAMPLES, STEP_MS)
    rate.record(30_000, 0)
    assert rate.throttle_ms(1000, 0) == 20_000  # 3000/s over 10 s: (3000 - 1000) / 1000 * 10 s.
    assert rate.throttle_ms(3000, 0) == 0


def test_steps_go_one_by_one() -> None:
    rate = Rate(SAMPLES, STEP_MS)
    for second in range(20):
        rate.record(100, second * STEP_MS)
    assert rate.measure(19_000) == pytest.approx(1100 / 10)
    assert rate.measure(25_500) == pytest.approx(500 / 10.5)  # The samples of seconds 15 to 19 remain.


def test_a_bucket_gives_what_a_window_brings_back_and_then_owes() -> None:
    bucket = TokenBucket(11, 2, 0)
    bucket.take(22, 2, 0)
    assert bucket.debt_ms(2, 0) == 0
    bucket.take(10, 2, 0)
    assert bucket.debt_ms(2, 0) == 5_000
    assert bucket.debt_ms(2, 4_000) == 1_000
    assert bucket.debt_ms(2, 5_000) == 0


def test_a_bucket_never_holds_more_than_a_window_brings_back() -> None:
    bucket = TokenBucket(11, 2, 0)
    bucket.take(0, 2, 1_000_000)
    bucket.take(24, 2, 1_000_000)
    assert bucket.debt_ms(2, 1_000_000) == 1_000
