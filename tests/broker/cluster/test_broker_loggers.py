import logging

from minibroker.cluster.broker_loggers import BrokerLoggers

CLEANER, MANAGER = "kafka.log.LogCleaner", "kafka.server.ReplicaManager"


def test_loggers_of_kafkas_classes_inherit_their_levels_from_that_of_kafka() -> None:
    loggers = BrokerLoggers()
    before = loggers.levels()
    try:
        loggers.set_level("kafka", "DEBUG")
        loggers.set_level(CLEANER, "ERROR")
        levels = loggers.levels()
        assert [levels[name] for name in ("kafka", "root", "minibroker", MANAGER)] == ["DEBUG"] * 4
        assert levels[CLEANER] == "ERROR"
        assert logging.getLogger("minibroker").level == logging.DEBUG
        loggers.set_level(CLEANER, None)
        assert loggers.levels()[CLEANER] == "DEBUG"
        assert not any("of_kafka" in name for name in loggers.levels())
    finally:
        loggers.restore()
    assert loggers.levels() == before
