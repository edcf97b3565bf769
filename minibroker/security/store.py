"""What all listeners of a cluster know of their clients: SCRAM credentials and delegation tokens."""

from functools import cached_property
from typing import TYPE_CHECKING

from minibroker.security.delegation_tokens import DelegationTokens
from minibroker.security.sasl.scram_credentials import ScramCredentials

if TYPE_CHECKING:
    from minibroker.state import BrokerState


class SecurityStore:
    """`BrokerState.security`."""

    def __init__(self, state: "BrokerState") -> None:
        self._state = state

    @cached_property
    def scram(self) -> ScramCredentials:
        """The credentials of users."""
        return ScramCredentials(self._state.metadata)

    @cached_property
    def tokens(self) -> DelegationTokens:
        """The delegation tokens."""
        return DelegationTokens(self._state)
