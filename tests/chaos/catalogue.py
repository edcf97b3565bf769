"""The applications: what each is called, which check finds its bug, and how to bring the bug about by hand."""

import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from minibroker import OperationError

if TYPE_CHECKING:
    from tests.chaos.driver import Run


@dataclass(frozen=True)
class App:
    """One application.

    Attributes:
        name: CLIENT:FUNCTION.
        check: finds the bug. On a quiet broker it finds nothing.
        provoke: called before each batch of inputs; brings the bug about without chaos.
        instances: how many run beside each other.
        restart: the signal that ends the first instance once while it works. It is started again.
        profile: of chaos.
    """

    name: str
    check: str
    provoke: Callable[["Run"], object]
    instances: int = 1
    restart: signal.Signals | None = None
    profile: str = "default"


def refuse_writes(run: "Run") -> None:
    run.broker.faults.add(api="Produce", topic=run.target, error="NOT_ENOUGH_REPLICAS", times=1)


def move_leader(run: "Run") -> None:
    run.broker.faults.add(api="Produce", topic=run.target, error="NOT_LEADER_OR_FOLLOWER", times=1)


def lose_answer(run: "Run") -> None:
    run.broker.faults.add(api="Produce", topic=run.target, disconnect="after", times=1)


def delay_end(run: "Run") -> None:
    run.broker.faults.add(api="EndTxn", delay_ms=600, times=1)


def rebalance(run: "Run") -> None:
    with suppress(OperationError):  # no member has joined again yet
        run.broker.group(run.group).rebalance()


def rebalance_slowly(run: "Run") -> None:
    """Rebalance so that the next inputs come before the member knows its partitions."""
    joins = len(run.broker.requests.entries(api="JoinGroup"))
    run.broker.faults.add(api="SyncGroup", delay_ms=300, times=1)
    rebalance(run)
    run.broker.wait_for_requests(joins + 1, api="JoinGroup")


def refuse_one_partition(run: "Run") -> None:
    run.broker.faults.add(api="Produce", topic=run.target, partition=0, error="NOT_ENOUGH_REPLICAS", times=30)


def refuse_commits(run: "Run") -> None:
    run.broker.faults.add(api="OffsetCommit", error="COORDINATOR_LOAD_IN_PROGRESS", times=1, delay_ms=100)


def expel_first(run: "Run") -> None:
    """Stop the first instance for longer than its session, as a long pause of its machine would."""
    group = run.broker.group(run.group)
    run.feed()
    run.processes[0].send_signal(signal.SIGSTOP)
    run.broker.clock.advance(7)
    group.wait_until_stable(1)
    run.wait_for_outputs(1.0)
    run.processes[0].send_signal(signal.SIGCONT)


APPS: Final[Sequence[App]] = (
    App("confluent:unchecked_delivery", "no_loss", refuse_writes),
    App("confluent:reordering_retries", "order_by_key", move_leader),
    App("confluent:commit_of_unfinished_work", "no_loss", rebalance),
    App("confluent:own_position_after_rebalance", "no_loss", rebalance),
    App("kafka_python:ignored_future", "no_loss", refuse_writes),
    App("kafka_python:no_flush", "no_loss", move_leader, restart=signal.SIGTERM),
    App("aiokafka:checkpoint_moves_back", "commits_do_not_go_back", rebalance, profile="rebalances"),
    App("aiokafka:commit_ahead_of_tasks", "no_loss", refuse_one_partition, restart=signal.SIGKILL),
    App("java:transaction_without_group_metadata", "exactly_once", expel_first, instances=2, profile="rebalances"),
    App("java:pause_after_rebalance", "caught_up", rebalance),
    App("java:no_seek_back", "no_loss", refuse_writes),
    App("java:retried_commit", "commits_do_not_go_back", refuse_commits),
    App("franz:ignored_results", "no_loss", refuse_writes),
    App("franz:commits_ahead_of_goroutines", "no_loss", refuse_one_partition, restart=signal.SIGKILL),
    App("sarama:not_idempotent", "no_duplicates", lose_answer, profile="network"),
    App("sarama:newest_offset", "no_loss", rebalance_slowly, profile="rebalances"),
    App("segmentio:read_commits", "no_loss", refuse_writes),
    App("kafkajs:commit_before_work", "no_loss", refuse_writes),
    App("kafkajs:send_not_awaited", "no_loss", refuse_writes),
    App("kafkajs:buffer_behind_commits", "no_loss", refuse_one_partition, restart=signal.SIGKILL),
)
LATER: Final[Sequence[App]] = (
    App("confluent:resend_from_callback", "order_by_key", move_leader),
    App("confluent:automatic_commits", "no_commit_ahead", move_leader),
    App("confluent:unknown_commit", "exactly_once", delay_end, profile="transactions"),
    App("confluent:kept_group_metadata", "caught_up", rebalance, profile="rebalances"),
    App("confluent:whole_batch_again", "no_duplicates", lose_answer, profile="network"),
    App("kafka_python:highest_of_pool", "no_commit_ahead", refuse_writes),
    App("kafka_python:poll_for_assignment", "no_loss", rebalance),
    App("aiokafka:commits_as_completed", "no_commit_ahead", refuse_writes),
    App("kafkajs:parallel_sends", "order_by_key", move_leader),
    App("kafkajs:swallowed_error", "no_loss", refuse_writes),
)
"""The applications that were written after the profiles of chaos."""
BY_NAME: Final = {app.name: app for app in (*APPS, *LATER)}
