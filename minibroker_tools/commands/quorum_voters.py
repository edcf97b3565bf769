"""kafka-metadata-quorum add-controller and remove-controller: the voters of the quorum (KIP-853, KIP-1312)."""

import base64
import os
import re
from collections.abc import Mapping
from typing import Final

from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.java_text import long_of, trim
from minibroker_protocol.messages.add_raft_voter import AddRaftVoterRequest, Listener
from minibroker_protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from minibroker_protocol.messages.unregister_controller import UnregisterControllerRequest
from minibroker_protocol.uuids import uuid_text
from minibroker_tools.client.cluster import Cluster
from minibroker_tools.client.settings import load_properties
from minibroker_tools.failures import ApiError, ToolError, check
from minibroker_tools.options import Values
from minibroker_tools.output import out

_UUID_BYTES: Final = 16
_UUID_LETTERS: Final = 24
_TIMEOUT_MS: Final = 30_000
_ENDPOINT: Final = re.compile(r"(.*)://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?\d+)")
_IS_IT_ONE: Final = "Is this a valid controller configuration file?"


def add(cluster: Cluster, values: Values) -> None:
    """Have the controller of a configuration file become a voter. ToolError."""
    if not values.has("command-config"):
        raise ToolError(
            "You must supply the configuration file of the controller you are adding when using add-controller."
        )
    properties = load_properties(values.text("command-config"))
    controller = _controller_id(properties)
    directory_id = _directory_id(_metadata_directory(properties))
    listeners = _listeners(properties)
    if not values.has("dry-run"):
        request = AddRaftVoterRequest(
            cluster_id=None,
            timeout_ms=_TIMEOUT_MS,
            voter_id=controller,
            voter_directory_id=_uuid(directory_id),
            listeners=listeners,
        )
        try:
            _ask(cluster, request)
        except ApiError as error:
            raise ToolError(error.described) from None
    endpoints = ", ".join(
        f"{each.name}://{f'[{each.host}]' if ':' in each.host else each.host}:{each.port}" for each in listeners
    )
    begin = "DRY RUN of adding" if values.has("dry-run") else "Added"
    out(f"{begin} controller {controller} with directory id {directory_id} and endpoints: {endpoints}")


def remove(cluster: Cluster, values: Values) -> None:
    """Have a controller be a voter no more. ToolError."""
    controller, directory_id = values.number("controller-id", -1), values.text("controller-directory-id") or ""
    if controller < 0:
        raise ToolError(f"Invalid negative --controller-id: {controller}")
    try:
        uuid = _uuid(directory_id)
    except ValueError as error:
        raise ToolError(f"Failed to parse --controller-directory-id: {error}") from None
    is_trial, leaves = values.has("dry-run"), values.has("unregister")
    if not is_trial:
        request = RemoveRaftVoterRequest(cluster_id=None, voter_id=controller, voter_directory_id=uuid)
        try:
            _ask(cluster, request)
        except ApiError as error:
            if leaves and error.code in {ErrorCode.UNSUPPORTED_VERSION, ErrorCode.VOTER_NOT_FOUND}:
                raise _left(f"Failed to remove KRaft voter {controller}", error, controller) from None
            raise ToolError(error.described) from None
    begin = "DRY RUN of removing" if is_trial else "Removed"
    out(f"{begin} KRaft controller {controller} with directory id {uuid_text(uuid)}")
    if leaves:
        if not is_trial:
            _unregister(cluster, controller)
        out(f"{'DRY RUN of unregistering' if is_trial else 'Unregistered'} KRaft controller {controller}")


def _unregister(cluster: Cluster, controller: int) -> None:
    try:
        _ask(cluster, UnregisterControllerRequest(controller_id=controller))
    except ApiError as error:
        raise _left(f"Failed to unregister controller {controller}", error, controller) from None


def _left(begin: str, error: ApiError, controller: int) -> ToolError:
    """The failure of a command whose controller is still registered."""
    command = f"kafka-cluster.sh unregister-controller --id {controller}"
    return ToolError(f"{begin}: {error.message}. To unregister the controller from the cluster, run `{command}`.")


def _ask(cluster: Cluster, request: AddRaftVoterRequest | RemoveRaftVoterRequest | UnregisterControllerRequest) -> None:
    """Ask any broker, which knows the controller. ApiError."""
    response = cluster.ask(request)
    check(response.error_code, response.error_message)


def _controller_id(properties: Mapping[str, str]) -> int:
    text = properties.get("node.id")
    if text is None:
        raise ToolError(f"node.id not found in configuration file. {_IS_IT_ONE}")
    try:
        controller = long_of(trim(text))
    except ValueError:
        raise ToolError(f"node.id: {text} is not a number") from None
    if controller < 0:
        raise ToolError(f"node.id was negative in configuration file. {_IS_IT_ONE}")
    if "controller" not in properties.get("process.roles", ""):
        raise ToolError(f"process.roles did not contain 'controller' in configuration file. {_IS_IT_ONE}")
    return controller


def _metadata_directory(properties: Mapping[str, str]) -> str:
    if "metadata.log.dir" in properties:
        return properties["metadata.log.dir"]
    if properties.get("log.dirs"):
        return properties["log.dirs"].strip().split(",")[0]
    raise ToolError(f"Neither metadata.log.dir nor log.dirs were found. {_IS_IT_ONE}")


def _directory_id(directory: str) -> str:
    path = os.path.join(directory, "meta.properties")
    if not os.path.isfile(path):
        raise ToolError(f"Unable to read meta.properties from {directory}")
    found = load_properties(path).get("directory.id")
    if found is None:
        raise ToolError(f"No directory id found in {directory}")
    try:
        _uuid(found)
    except ValueError as error:
        raise ToolError(f"{path}: directory.id: {error}") from None
    return found


def _listeners(properties: Mapping[str, str]) -> list[Listener]:
    """Where the controller's own listeners are."""
    known: dict[str, Listener] = {}
    for key in ("listeners", "advertised.listeners"):
        for text in filter(None, (each.strip() for each in properties.get(key, "").split(","))):
            endpoint = _ENDPOINT.fullmatch(text)
            if endpoint is None:
                raise ToolError(f"{key}: {text} is no endpoint")
            name = endpoint[1].upper()
            known[name] = Listener(name=name, host=endpoint[2] or "localhost", port=int(endpoint[3]))
    if "controller.listener.names" not in properties:
        raise ToolError(f"controller.listener.names was not found. {_IS_IT_ONE}")
    names = [each.strip().upper() for each in properties["controller.listener.names"].split(",")]
    missing = next((each for each in names if each not in known), None)
    if missing is not None:
        raise ToolError(f"Cannot find information about controller listener name: {missing}")
    return [known[each] for each in dict.fromkeys(names)]


def _uuid(text: str) -> bytes:
    """A UUID of its text. ValueError in the words of Kafka's `Uuid.fromString` and of Java's decoder."""
    if len(text) > _UUID_LETTERS:
        start = text[:_UUID_LETTERS]
        raise ValueError(f"Input string with prefix `{start}` is too long to be decoded as a base64 UUID")
    letters = text.rstrip("=")
    if stranger := re.search(r"[^\w-]", letters, re.ASCII):
        raise ValueError(f"Illegal base64 character {ord(stranger[0]):x}")
    if len(letters) % 4 == 1:
        raise ValueError("Last unit does not have enough valid bits")
    decoded = base64.urlsafe_b64decode(letters + "=" * (-len(letters) % 4))
    if len(decoded) != _UUID_BYTES:
        raise ValueError(
            f"Input string `{text}` decoded as {len(decoded)} bytes, which is not equal to the expected "
            f"{_UUID_BYTES} bytes of a base64-encoded UUID"
        )
    return decoded
