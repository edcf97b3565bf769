"""There is one controller, and it stays."""

import pytest

from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.cluster import UnregisterControllerRequest
from tests.broker.harness import Harness


def test_the_only_controller_stays(harness: Harness) -> None:
    response = harness.ask(UnregisterControllerRequest(controller_id=harness.core.cluster.first.id), 0)
    assert response.error_code == ErrorCode.INVALID_REQUEST
    assert response.error_message == "Cannot unregister controller 1 because it is part of the voter set."


@pytest.mark.parametrize("controller", [-1, 0, 2])
def test_a_controller_that_was_never_there_is_not_known(controller: int, harness: Harness) -> None:
    response = harness.ask(UnregisterControllerRequest(controller_id=controller), 0)
    assert response.error_code == ErrorCode.CONTROLLER_ID_NOT_REGISTERED
    assert response.error_message == f"Controller ID {controller} is not currently registered."
