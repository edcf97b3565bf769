"""When a broker's coordinators are ready: Kafka makes their topics when it is first asked, and loads them then."""

from typing import Final

from minibroker_protocol.messages.groups import FindCoordinatorRequest
from tests.broker.coordinators.groups.offset_requests import fetch_with_error
from tests.broker.coordinators.transactions.producer import Asks, init_producer_id
from tests.broker.socket_client import Address, SocketClient, address_of
from tests.patience import eventually

_GROUP, _TRANSACTION = 0, 1
_NAME: Final = "warm-up"
"""Of a group, and of a transactional id, that nobody else uses."""
_INIT_PRODUCER_ID_VERSION: Final = 4
"""One that all releases with KRaft have."""


def wait_for_coordinators(broker: Asks) -> None:
    """Until groups and transactions are served."""
    eventually(lambda: _is_found(broker, _GROUP) and _is_found(broker, _TRANSACTION))
    eventually(lambda: init_producer_id(broker, _NAME, version=_INIT_PRODUCER_ID_VERSION).error_code == 0)
    eventually(lambda: fetch_with_error(broker, group_id=_NAME)[0] == 0)


def with_coordinators(bootstrap: str) -> Address:
    """The address of a broker, when its coordinators are ready."""
    address = address_of(bootstrap)
    with SocketClient(address) as client:
        wait_for_coordinators(client)
    return address


def _is_found(broker: Asks, kind: int) -> bool:
    return bool(broker.ask(FindCoordinatorRequest(key=_NAME, key_type=kind), 2).error_code == 0)
