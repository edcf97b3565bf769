"""The numbers of the SCRAM mechanisms in requests (`org.apache.kafka.clients.admin.ScramMechanism`)."""

from typing import Final

from minibroker.security.sasl.mechanism import SCRAM_SHA_256, SCRAM_SHA_512

NUMBERS: Final = {SCRAM_SHA_256: 1, SCRAM_SHA_512: 2}
NAMES: Final = {number: name for name, number in NUMBERS.items()}
