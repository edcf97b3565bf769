"""The transaction coordinator."""

from minibroker.config.keys import BOOLEAN, HIGH, INT, LOW, MIB, NOT_NEGATIVE, POSITIVE, REPORTED, ConfigKey
from minibroker.config.reported_keys.marks import of_kafka_4

# fmt: off
KEYS = (
    ConfigKey("transaction.state.log.load.buffer.size", INT, 5 * MIB, POSITIVE, HIGH, REPORTED,
              "How much of the transaction topic is read at a time while a coordinator loads."),
    *of_kafka_4(
        ConfigKey("add.partitions.to.txn.retry.backoff.max.ms", INT, 100, NOT_NEGATIVE, HIGH, REPORTED,
                  "How long the broker tries again to add a partition to a transaction that is about to end."),
        ConfigKey("add.partitions.to.txn.retry.backoff.ms", INT, 20, POSITIVE, HIGH, REPORTED,
                  "How long the broker waits between those attempts."),
        ConfigKey("transaction.two.phase.commit.enable", BOOLEAN, False, None, LOW, REPORTED,
                  "Whether a transaction may be part of one with an external coordinator (KIP-939)."),
    ),
)
# fmt: on
