"""Credentials shared by all listeners of a cluster: SCRAM credentials and delegation tokens.

AlterUserScramCredentials stores SCRAM credentials, never passwords (KIP-554). They are in the section "scram" of the
cluster's metadata: mechanism -> user -> salt, keys and iterations.
"""

import base64
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from minibroker.security.delegation_tokens import DelegationTokens
from minibroker.security.sasl.scram import ScramCredential

if TYPE_CHECKING:
    from minibroker.cluster.cluster_metadata import ClusterMetadata
    from minibroker.cluster.core import Core


_SECTION: Final = "scram"


class ScramCredentials:
    """The SCRAM credentials in `metadata`. Each call reads the current metadata, so a reset needs no notification."""

    def __init__(self, metadata: "ClusterMetadata") -> None:
        self._metadata = metadata

    def find(self, mechanism: str, user: str) -> ScramCredential | None:
        """Return a user's credential for a mechanism, or None."""
        credential = self._read_section().get(mechanism, {}).get(user)
        return None if credential is None else _from_entry(credential)

    def of_user(self, user: str) -> dict[str, ScramCredential]:
        """Return all credentials of a user by mechanism."""
        return {name: _from_entry(users[user]) for name, users in self._read_section().items() if user in users}

    def users(self) -> list[str]:
        """Return the sorted names of all users with a credential."""
        return sorted({user for users in self._read_section().values() for user in users})

    def alter(self, changes: Mapping[tuple[str, str], ScramCredential | None]) -> None:
        """Store or remove credentials by (mechanism, user), all in one atomic change. None removes a credential.

        Raises:
            OSError: The metadata cannot be written.
        """
        stored = {mechanism: dict(users) for mechanism, users in self._read_section().items()}
        for (mechanism, user), credential in changes.items():
            users = stored.setdefault(mechanism, {})
            if credential is None:
                users.pop(user, None)
            else:
                users[user] = _to_entry(credential)
        self._metadata.write(_SECTION, {mechanism: users for mechanism, users in stored.items() if users} or None)

    def _read_section(self) -> dict[str, dict[str, dict[str, Any]]]:
        stored: dict[str, dict[str, dict[str, Any]]] = self._metadata.read(_SECTION) or {}
        return stored


def _from_entry(entry: Mapping[str, Any]) -> ScramCredential:
    salt, stored_key, server_key = (base64.b64decode(entry[key]) for key in ("salt", "stored_key", "server_key"))
    return ScramCredential(salt, stored_key, server_key, int(entry["iterations"]))


def _to_entry(credential: ScramCredential) -> dict[str, Any]:
    return {
        name: base64.b64encode(value).decode() if isinstance(value, bytes) else value
        for name, value in credential._asdict().items()
    }


class SecurityStore:
    """The security state of a cluster, available as `Services.security`.

    Attributes:
        scram: The SCRAM credentials of users.
        tokens: The delegation tokens.
    """

    def __init__(self, core: "Core") -> None:
        self.scram = ScramCredentials(core.metadata)
        self.tokens = DelegationTokens(core)
