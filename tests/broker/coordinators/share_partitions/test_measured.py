"""Metrics of share groups."""

from minibroker.coordinators.share_partitions.in_flight import Acknowledgement
from minibroker.coordinators.share_partitions.manager import Histogram, ShareGroupMetrics
from tests.broker.coordinators.share_partitions.members import ACCEPT, REJECT, RELEASE, ShareMember, begin
from tests.broker.harness import Harness, batch

T0 = ("t", 0)


def test_acknowledgements_are_counted_by_their_type() -> None:
    metrics = ShareGroupMetrics()
    metrics.acknowledge([Acknowledgement(0, 9, (1,)), Acknowledgement(10, 12, (1, 2, 0))])
    assert metrics.acknowledged == {1: 11, 2: 1, 0: 1}


def test_a_histogram_has_the_most_recent_values() -> None:
    spread = Histogram()
    assert (spread.count, spread.quantile(0.5)) == (0, 0)
    for value in range(2_000):
        spread.add(value)
    assert (spread.count, spread.quantile(0.999)) == (2_000, 1_998)
    assert spread.quantile(0.5) == 972 + 514


def test_only_successful_acknowledgements_are_counted(harness: Harness) -> None:
    begin(harness)
    harness.produce(batch(b"a", b"b", b"c"))
    member = ShareMember(harness)
    member.one(T0)
    assert member.acknowledged([(0, 5, ACCEPT)]) != 0
    metrics = harness.services.share_partitions.metrics
    assert not metrics.acknowledged
    assert member.acknowledged([(0, 0, ACCEPT), (1, 1, RELEASE), (2, 2, REJECT)]) == 0
    assert metrics.acknowledged == {1: 1, 2: 1, 3: 1}


def test_fetches_record_the_ratio_of_partitions_and_the_acquisition_time(harness: Harness) -> None:
    begin(harness)
    member = ShareMember(harness)
    waiting = member.send(member.request(T0, max_wait_ms=1_000))
    (fetches,) = harness.services.share_partitions.metrics.fetches.values()
    assert list(fetches.ratio.values) == []
    harness.clock.advance(400)
    harness.produce(batch(b"a"))
    assert waiting.response.error_code == 0
    assert (list(fetches.ratio.values), list(fetches.acquire_ms.values)) == ([100], [0, 400])
    assert harness.services.share_partitions.metrics.load_ms.count == 1
