"""Runs librdkafka's mock cluster of one broker (C, in memory) until SIGTERM, as a process of its own.

`python -m benchmarks.mock_cluster` prints `mock ready: bootstrap=HOST:PORT`. The cluster lives inside a librdkafka
client; the client's own metadata is the way to learn the port that the mock broker got.
"""

import signal

from confluent_kafka import Producer


def main() -> None:
    # Block the signal before librdkafka starts its threads: they inherit the mask, and the signal waits for the main
    # thread.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    cluster = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "mock", "log_level": 3})
    (broker,) = cluster.list_topics(timeout=10).brokers.values()
    print(f"mock ready: bootstrap={broker.host}:{broker.port}", flush=True)
    signal.sigwait({signal.SIGTERM})


if __name__ == "__main__":
    main()
