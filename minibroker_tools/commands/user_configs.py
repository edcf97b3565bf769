"""Changes and prints quotas and SCRAM credentials, for kafka-configs."""

import hashlib
import re
import secrets
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from minibroker.security.sasl.scram import HASHES, ScramCredential, derive_credential
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.java_text import to_double
from minibroker_protocol.messages.client_quotas import (
    AlterClientQuotasRequest,
    AlterEntryData,
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    OpData,
)
from minibroker_protocol.messages.scram_credentials import (
    AlterUserScramCredentialsRequest,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
    UserName,
)
from minibroker_tools.client.cluster import Cluster
from minibroker_tools.failures import ToolError, check_all, error_code, raise_if_failed
from minibroker_tools.output import write_line

if TYPE_CHECKING:
    from minibroker_tools.client.zookeeper import ZooKeeperTree
    from minibroker_tools.commands.configs import Entity

SCRAM_MECHANISMS: Final = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
_MIN_ITERATIONS: Final = 4096
_CREDENTIAL: Final = re.compile(r"(?:iterations=(-?[0-9]*),)?password=(.*)", re.DOTALL)
_SALT_BYTES: Final = 24
_QUOTA_TYPES: Final = {"users": "user", "clients": "client-id", "ips": "ip"}
_QUOTA_TITLES: Final = {"user": "user-principal", "client-id": "client-id", "ip": "ip"}
_QUOTAS: Final = {
    "users": {"consumer_byte_rate", "producer_byte_rate", "request_percentage", "controller_mutation_rate"},
    "ips": {"connection_creation_rate"},
}
_EXACT, _DEFAULT, _ANY = 0, 1, 2


def alter_scram(cluster: Cluster, user: str, added: Mapping[str, str], deleted: Sequence[str]) -> None:
    """Set and delete the SCRAM credentials of a user.

    Raises:
        ToolError: The user, a mechanism or a credential is invalid.
        ApiError: The broker refused a change.
    """
    _check_scram(user, added, deleted)
    upsertions: list[ScramCredentialUpsertion] = []
    for mechanism, text in added.items():
        iterations, password = _parse_credential(mechanism, text)
        salt = secrets.token_bytes(_SALT_BYTES)
        salted = hashlib.pbkdf2_hmac(HASHES[mechanism], password.encode(), salt, iterations)
        upsertions.append(
            ScramCredentialUpsertion(
                name=user,
                mechanism=SCRAM_MECHANISMS[mechanism],
                iterations=iterations,
                salt=salt,
                salted_password=salted,
            )
        )
    deletions = [ScramCredentialDeletion(name=user, mechanism=SCRAM_MECHANISMS[name]) for name in deleted]
    request = AlterUserScramCredentialsRequest(deletions=deletions, upsertions=upsertions)
    check_all(cluster.ask_controller(request).results)


def store_scram(tree: "ZooKeeperTree", user: str, added: Mapping[str, str], deleted: Sequence[str]) -> None:
    """Set and delete the SCRAM credentials of a user in ZooKeeper.

    Raises:
        ToolError: The user, a mechanism or a credential is invalid.
    """
    _check_scram(user, added, deleted)
    credentials: dict[str, ScramCredential] = {}
    for mechanism, text in added.items():
        iterations, password = _parse_credential(mechanism, text)
        credentials[mechanism] = derive_credential(mechanism, password, iterations=iterations)
    tree.alter_user(user, credentials, deleted)


def _check_scram(user: str, added: Mapping[str, str], deleted: Sequence[str]) -> None:
    if not user:
        raise ToolError(
            "The use of --entity-default or --user-defaults is not allowed with User SCRAM Credentials using "
            "--bootstrap-server."
        )
    _refuse_unknown("users", [name for name in added if name not in SCRAM_MECHANISMS], "added")
    _refuse_unknown("users", [name for name in deleted if name not in SCRAM_MECHANISMS], "deleted")


def _parse_credential(mechanism: str, text: str) -> tuple[int, str]:
    match = _CREDENTIAL.fullmatch(text)
    if match is None:
        raise ToolError(f"Invalid credential property {mechanism.replace('-', '_')}={text}")
    iterations = _MIN_ITERATIONS if match[1] in {None, "", "-1"} else int(match[1])
    if iterations < _MIN_ITERATIONS:
        raise ToolError(f"Iterations {iterations} is less than the minimum {_MIN_ITERATIONS} required for {mechanism}")
    return iterations, match[2]


def describe_scram(cluster: Cluster, user: str | None) -> None:
    """Print the SCRAM mechanisms of a user, or of all users if `user` is None."""
    users = None if user is None else [UserName(name=user)]
    response: DescribeUserScramCredentialsResponse = raise_if_failed(
        cluster.ask_controller(DescribeUserScramCredentialsRequest(users=users))
    )
    names = {mechanism: name for name, mechanism in SCRAM_MECHANISMS.items()}
    for result in response.results:
        if error_code(result.error_code) is ErrorCode.RESOURCE_NOT_FOUND:
            continue
        infos = ", ".join(
            f"{names.get(info.mechanism, 'UNKNOWN')}=iterations={info.iterations}"
            for info in raise_if_failed(result).credential_infos
        )
        write_line(f"SCRAM credential configs for user-principal '{result.user}' are {infos}")


def alter_quotas(
    cluster: Cluster, entities: Sequence[tuple[str, str]], added: Mapping[str, str], deleted: Sequence[str]
) -> None:
    """Set and delete quotas of users, clients or IP addresses.

    Raises:
        ToolError: A quota name or value is invalid.
        ApiError: The broker refused a change.
    """
    kind = entities[0][0] if len(entities) == 1 else "clients"
    valid_names = _QUOTAS["ips" if kind == "ips" else "users"]
    _refuse_unknown(kind, [name for name in added if name not in valid_names], "added")
    _refuse_unknown(kind, [name for name in deleted if name not in valid_names], "deleted")
    changes: list[OpData] = []
    for name, text in added.items():
        try:
            changes.append(OpData(key=name, value=to_double(text), remove=False))
        except ValueError:
            raise ToolError(f"Cannot parse quota configuration value for {name}: {text}") from None
    changes += [OpData(key=name, value=0.0, remove=True) for name in deleted]
    entity = [EntityData(entity_type=_QUOTA_TYPES[kind], entity_name=name or None) for kind, name in entities]
    request = AlterClientQuotasRequest(entries=[AlterEntryData(entity=entity, ops=changes)], validate_only=False)
    check_all(cluster.ask_controller(request).entries)


def _refuse_unknown(kind: str, names: Sequence[str], verb: str) -> None:
    if not names:
        return
    if kind == "ips":
        raise ToolError(
            "Only connection quota configs can be added for 'ips' using --bootstrap-server. "
            f"Unexpected config names: {','.join(names)}"
        )
    allowed = "quota and SCRAM credential configs" if kind == "users" else "quota configs"
    names_list = f"Set({', '.join(names)})" if verb == "added" else f"List({', '.join(names)})"
    raise ToolError(
        f"Only {allowed} can be {verb} for '{kind}' using --bootstrap-server. Unexpected config names: {names_list}"
    )


def describe_quotas(cluster: Cluster, entities: Sequence["Entity"]) -> None:
    """Print the quotas of entities."""
    components = [
        ComponentData(
            entity_type=_QUOTA_TYPES[kind],
            match_type=_ANY if name is None else _EXACT if name else _DEFAULT,
            match=name or None,
        )
        for kind, name in entities
    ]
    response: DescribeClientQuotasResponse = raise_if_failed(
        cluster.ask(DescribeClientQuotasRequest(components=components, strict=True))
    )
    for entry in response.entries or []:
        parts = {item.entity_type: item.entity_name for item in entry.entity}
        entity_text = ", ".join(
            f"the default {word}" if parts[kind] is None else f"{word} '{parts[kind]}'"
            for kind, word in _QUOTA_TITLES.items()
            if kind in parts
        )
        write_line(
            f"Quota configs for {entity_text} are {', '.join(f'{item.key}={item.value}' for item in entry.values)}"
        )
