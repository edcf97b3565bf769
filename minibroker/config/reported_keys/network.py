"""Sockets, queues of requests, and the threads that work on them."""

from minibroker.config.keys import HIGH, INT, LONG, MEDIUM, POSITIVE, REPORTED, STRING, ConfigKey
from minibroker.config.reported_keys.marks import of_kafka_3

# fmt: off
KEYS = (
    ConfigKey("early.start.listeners", STRING, None, None, HIGH, REPORTED,
              "Listeners that open before the authorizer is ready; here it is ready before any of them."),
    ConfigKey("num.io.threads", INT, 8, POSITIVE, HIGH, REPORTED,
              "Threads that work on requests; minibroker works in one event loop."),
    ConfigKey("num.network.threads", INT, 3, POSITIVE, HIGH, REPORTED,
              "Threads that read requests and write responses; minibroker works in one event loop."),
    ConfigKey("queued.max.requests", INT, 500, POSITIVE, HIGH, REPORTED,
              "How many requests may wait before no more are read."),
    ConfigKey("socket.connection.setup.timeout.max.ms", LONG, 30_000, None, MEDIUM, REPORTED,
              "The longest that the broker waits for a connection of its own, after attempts that failed."),
    ConfigKey("socket.connection.setup.timeout.ms", LONG, 10_000, None, MEDIUM, REPORTED,
              "How long the broker waits for a connection of its own at first."),
    ConfigKey("socket.listen.backlog.size", INT, 50, POSITIVE, MEDIUM, REPORTED,
              "How many connections may wait to be accepted."),
    ConfigKey("socket.receive.buffer.bytes", INT, 100 * 1024, None, HIGH, REPORTED,
              "The receive buffer of the broker's sockets; -1 is the system's default."),
    ConfigKey("socket.send.buffer.bytes", INT, 100 * 1024, None, HIGH, REPORTED,
              "The send buffer of the broker's sockets; -1 is the system's default."),
    *of_kafka_3(
        ConfigKey("control.plane.listener.name", STRING, None, None, HIGH, REPORTED,
                  "The listener on which a broker hears its controller in a cluster with ZooKeeper."),
    ),
)
# fmt: on
