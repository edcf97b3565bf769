"""The broker's process, as the tortures start and end it."""

import re
from typing import ClassVar, Final

from tests.clients.broker_process import BrokerProcess

HARMLESS: Final = re.compile(
    r"\b(cut|removed|rebuil[dt]|recover(ed|ing|y))\b|has no members left|Too many open files|Error 24\b"
)
"""What a broker may say when it opens what a kill left behind.

News of a recovery, that all members of a group are gone (they are killed, too), and a lack of descriptors. Error 24 is
how the loader of a new process puts that.
"""


class Broker(BrokerProcess):
    """`minibroker serve`, of which recoveries are expected."""

    harmless: ClassVar = HARMLESS
