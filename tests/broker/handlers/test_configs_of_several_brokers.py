"""Configuration for one broker of several is that broker's own; configuration for all is everyone's."""

from minibroker_protocol.error_codes import ErrorCode
from tests.broker.config.configs import BROKER, OK, put, synonyms, value
from tests.broker.harness import Harness

DYNAMIC_BROKER, DYNAMIC_DEFAULT, STATIC, DEFAULT = 2, 3, 4, 5


def asking(cluster: Harness, node: int) -> Harness:
    """The cluster, with requests that go to this node."""
    cluster.asks = node
    return cluster


def test_each_broker_describes_what_was_altered_for_it_and_for_all(several: Harness) -> None:
    key = "log.cleaner.backoff.ms"
    assert put(asking(several, 2), BROKER, "2", key, "222") == OK
    assert put(asking(several, 3), BROKER, "3", key, "333") == OK
    assert put(asking(several, 3), BROKER, "", key, "111") == OK
    described = {node: synonyms(asking(several, node), BROKER, str(node), key)[:2] for node in (1, 2, 3)}
    of_all = (key, "111", DYNAMIC_DEFAULT)
    assert described == {
        1: [of_all, (key, "15000", DEFAULT)],
        2: [(key, "222", DYNAMIC_BROKER), of_all],
        3: [(key, "333", DYNAMIC_BROKER), of_all],
    }
    assert [value(asking(several, node), BROKER, str(node), "node.id") for node in (1, 2, 3)] == ["1", "2", "3"]
    several.restart()
    assert value(asking(several, 2), BROKER, "2", key) == "222"


def test_a_broker_is_altered_from_what_it_has_itself(several: Harness) -> None:
    for threads in ("16", "32", "64"):  # each time at most twice as many
        assert put(asking(several, 2), BROKER, "2", "num.io.threads", threads) == OK
    assert put(asking(several, 1), BROKER, "1", "num.io.threads", "32")[0] == ErrorCode.INVALID_REQUEST


def test_a_broker_does_not_alter_another_one(several: Harness) -> None:
    code, message = put(asking(several, 2), BROKER, "1", "message.max.bytes", "1000")
    assert (code, message) == (ErrorCode.INVALID_REQUEST, "Unexpected broker id, expected 2, but received 1")
