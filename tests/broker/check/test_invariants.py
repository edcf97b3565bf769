"""A broker's own bugs are told apart from those of applications."""

from dataclasses import replace

from minibroker import Broker
from minibroker.check.facts import facts_of
from minibroker.check.invariants import find_violations
from minibroker.check.logs import Batch, PartitionLog
from minibroker.operations.checking import find_broker_violations
from tests.broker.check.applications import fill, transactional


def batch(offset: int, epoch: int, sequence: int, leader_epoch: int = 0) -> Batch:
    return Batch(offset, offset, 1, epoch, sequence, leader_epoch, is_transactional=False, is_control=False, is_v2=True)


def test_a_broker_that_keeps_its_promises_has_no_violations() -> None:
    with Broker(check=True, topics=["in", "out"]) as broker:
        fill(broker, 4)
        transactional(broker, 4)
        assert broker.wait(find_broker_violations(broker.services)) == []


def test_each_broken_promise_is_named() -> None:
    good = PartitionLog(("in", 0), 0, 3, 3, False, False, 0)
    broken = {
        "I22": replace(good, start=4),
        "I13": replace(good, batches=[batch(0, 0, 0, 2), batch(1, 0, 1, 1)]),
        "I18": replace(good, batches=[batch(0, 1, 0), batch(1, 0, 1)]),
        "I5": replace(good, batches=[batch(0, 0, 0), batch(1, 0, 0)]),
    }
    with Broker(check=True) as broker:
        facts = facts_of(broker.services)
        for name, log in broken.items():
            (found,) = find_violations([log], facts)
            assert found.startswith(name)
        facts.violations.append("I11: an end went back")
        assert list(find_violations([good], facts)) == ["I11: an end went back"]
