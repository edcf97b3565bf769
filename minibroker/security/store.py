"""The credentials that all listeners of a cluster share: SCRAM credentials and delegation tokens."""

from functools import cached_property
from typing import TYPE_CHECKING

from minibroker.security.delegation_tokens import DelegationTokens
from minibroker.security.sasl.scram_credentials import ScramCredentials

if TYPE_CHECKING:
    from minibroker.cluster.core import Core


class SecurityStore:
    """`Services.security`."""

    def __init__(self, core: "Core") -> None:
        self._core = core

    @cached_property
    def scram(self) -> ScramCredentials:
        """The credentials of users."""
        return ScramCredentials(self._core.metadata)

    @cached_property
    def tokens(self) -> DelegationTokens:
        """The delegation tokens."""
        return DelegationTokens(self._core)
