"""kafka-features: shows and changes the cluster's feature levels (`org.apache.kafka.tools.FeatureCommand`)."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from minibroker_protocol.java_text import to_long
from minibroker_protocol.messages import cluster as api
from minibroker_protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from minibroker_tools.client.cluster import Cluster
from minibroker_tools.client.connection import Connection
from minibroker_tools.commands.common import add_connection, cluster_of
from minibroker_tools.failures import ToolError, find_error, raise_if_failed
from minibroker_tools.options import Options, Values
from minibroker_tools.output import write_line

_ALL_FEATURES: Final = 4
"""The ApiVersions version that includes all features (KIP-1022)."""
_METADATA_FEATURE: Final = "metadata.version"
_NAMES: Final = (
    "3.0-IV1 3.1-IV0 3.2-IV0 3.3-IV0 3.3-IV1 3.3-IV2 3.3-IV3 3.4-IV0 3.5-IV0 3.5-IV1 3.5-IV2 3.6-IV0 3.6-IV1 3.6-IV2 "
    "3.7-IV0 3.7-IV1 3.7-IV2 3.7-IV3 3.7-IV4 3.8-IV0 3.9-IV0 4.0-IV0 4.0-IV1 4.0-IV2 4.0-IV3 4.1-IV0 4.1-IV1 "
    "4.2-IV0 4.2-IV1 4.3-IV0 4.4-IV0 4.4-IV1 4.4-IV2"
)
_VERSIONS: Final = tuple(_NAMES.split())
"""The levels of metadata.version, starting at 1 (`MetadataVersion`)."""
_FIRST_OF_KRAFT: Final = "3.3-IV0"
_FIRST_MAPPED: Final = "3.3-IV3"
_MIN_METADATA_VERSIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "kraft.version": ("3.9-IV0",),
    "transaction.version": ("4.0-IV2", "4.0-IV2"),
    "group.version": ("4.0-IV0",),
    "eligible.leader.replicas.version": ("4.1-IV0",),
    "share.version": ("4.2-IV0", "4.4-IV0"),
    "streams.version": ("4.2-IV1",),
}
"""The minimum metadata.version for each level of a feature, starting at level 1, in Kafka's order (`Feature`)."""
_DEPENDENCIES: Final = {("eligible.leader.replicas.version", 1): "4.0-IV1"}
"""The metadata.version that kafka-features reports as a requirement of a feature level."""
_UPGRADE, _SAFE_DOWNGRADE, _UNSAFE_DOWNGRADE = 1, 2, 3
_COMMANDS: Final = ("describe", "upgrade", "downgrade", "disable", "version-mapping", "feature-dependencies")
_RELEASE_COMMANDS: Final = ("upgrade", "downgrade", "version-mapping")


def declare_options(tool: str) -> Options:
    """Declare the options of kafka-features."""
    options = Options(tool, f"This tool manages feature flags in Kafka: {', '.join(_COMMANDS)}.")
    add_connection(options, controller=True)
    options.value("metadata", help="with upgrade and downgrade: the level of metadata.version, such as 3.9-IV0")
    options.value("feature", help="a feature: NAME for disable, otherwise NAME=LEVEL", metavar="FEATURE")
    options.value("release-version", help="all features of a release, such as 4.3 or 4.3-IV0", metavar="RELEASE")
    options.value("node-id", help="with describe: the broker or controller to ask", type=int, metavar="ID")
    options.flag("unsafe", help="allow a downgrade that can lose metadata")
    options.flag("dry-run", help="check whether the change is possible without making it")
    return options


def run(options: Options, arguments: Sequence[str]) -> int:
    """Run the command given on the command line."""
    values = options.parse(arguments)
    command = next(iter(values.words), "")
    if command not in _COMMANDS:
        problem = f"invalid choice: '{command}'" if values.words else "too few arguments"
        raise ToolError(f"Command line error: {problem} (choose from {', '.join(_COMMANDS)}). Type --help for help.")
    if not values.has("bootstrap-server") and not values.has("bootstrap-controller"):
        raise ToolError(
            "Command line error: one of the arguments --bootstrap-server --bootstrap-controller is required. "
            "Type --help for help."
        )
    if values.has("release-version") and command not in _RELEASE_COMMANDS:
        raise ToolError("Command line error: unrecognized arguments: '--release-version'. Type --help for help.")
    if command == "version-mapping":
        _print_mapping(values.text("release-version") or _VERSIONS[-1])
        return 0
    if command == "feature-dependencies":
        _print_dependencies(values.all("feature"))
        return 0
    levels = {} if command == "describe" else _parse_levels(command, values)
    with cluster_of(values) as cluster:
        if command == "describe":
            _describe_features(cluster, values)
        else:
            _update_features(cluster, command, levels, values)
    return 0


def _describe_features(cluster: Cluster, values: Values) -> None:
    node_id = values.get("node-id")
    if node_id is not None and node_id < 0:
        raise ToolError(f"Invalid node id {node_id}: must be non-negative.")
    broker_features = _broker_features(cluster.any() if node_id is None else cluster.node(node_id))
    levels = {feature.name: feature.max_version_level for feature in broker_features.finalized_features}
    epoch = broker_features.finalized_features_epoch
    for feature in sorted(broker_features.supported_features, key=lambda feature: feature.name):
        format_level = _level_formatter(feature.name)
        write_line(
            f"Feature: {feature.name}\tSupportedMinVersion: {format_level(feature.min_version)}\tSupportedMaxVersion: "
            f"{format_level(feature.max_version)}\tFinalizedVersionLevel: {format_level(levels.get(feature.name, 0))}"
            f"\tEpoch: {epoch if epoch >= 0 else '-'}"
        )


def _broker_features(connection: Connection) -> ApiVersionsResponse:
    """Return a broker's features. Those whose levels start at 0 are included if its ApiVersions can return them."""
    request = ApiVersionsRequest(client_software_name="minibroker-tools", client_software_version="1")
    if connection.version_for(request) < _ALL_FEATURES:
        return connection.api_versions
    response: ApiVersionsResponse = raise_if_failed(connection.ask(request, version=_ALL_FEATURES))
    return response


def _level_formatter(feature: str) -> Callable[[int], str]:
    if feature != _METADATA_FEATURE:
        return str
    return lambda level: _VERSIONS[level - 1] if 1 <= level <= len(_VERSIONS) else f"UNKNOWN {level}"


def _parse_levels(command: str, values: Values) -> dict[str, int]:
    """Return the new level of each feature on the command line.

    Raises:
        ToolError: A feature or level is invalid or missing, or options conflict.
    """
    metadata = values.text("metadata")
    release = values.text("release-version")
    if release is not None:
        if metadata is not None or values.has("feature"):
            raise ToolError("Can not specify `release-version` with other feature flags.")
        # As in Kafka, an upgrade skips features at level 0 because the broker would reject them as downgrades.
        return {name: level for name, level in _release_levels(release).items() if level or command != "upgrade"}
    levels: dict[str, int] = {}
    if metadata is not None:
        if metadata not in _VERSIONS:
            supported = ", ".join(_VERSIONS[_VERSIONS.index(_FIRST_OF_KRAFT) : _VERSIONS.index("3.9-IV0") + 1])
            raise ToolError(f"Unsupported metadata.version {metadata}. Supported metadata.version are {supported}")
        levels[_METADATA_FEATURE] = _VERSIONS.index(metadata) + 1
    for text in values.all("feature"):
        name, level = (text, 0) if command == "disable" else _parse_feature(text)
        if name in levels:
            raise ToolError(f"Feature {name} was specified more than once.")
        levels[name] = level
    if not levels:
        raise ToolError(f"You must specify at least one feature to {command}")
    return levels


def _release_levels(release: str) -> dict[str, int]:
    """Return each feature's level in a release or at a metadata.version, in Kafka's order.

    Raises:
        ToolError: The release is unknown.
    """
    mapped = _VERSIONS[_VERSIONS.index(_FIRST_MAPPED) :]
    version = next(
        (candidate for candidate in reversed(mapped) if release in {candidate, candidate.partition("-")[0]}), None
    )
    if version is None:
        supported = ", ".join(mapped)
        raise ToolError(f"Unknown metadata.version '{release}'. Supported metadata.version are: {supported}")
    metadata = _VERSIONS.index(version)
    levels = {
        name: sum(_VERSIONS.index(first) <= metadata for first in firsts)
        for name, firsts in _MIN_METADATA_VERSIONS.items()
    }
    return {_METADATA_FEATURE: metadata + 1, **levels}


def _print_mapping(release: str) -> None:
    for name, level in _release_levels(release).items():
        write_line(f"{name}={level} ({release})" if name == _METADATA_FEATURE else f"{name}={level}")


def _print_dependencies(features: Sequence[str]) -> None:
    if not features:
        raise ToolError("Command line error: argument --feature is required. Type --help for help.")
    for name, level in map(_parse_feature, features):
        feature_text = f"{name}={level}"
        if name == _METADATA_FEATURE:
            if not _VERSIONS.index(_FIRST_MAPPED) < level <= len(_VERSIONS):
                raise ToolError(f"Unknown metadata.version {level}")
            feature_text += f" ({_VERSIONS[level - 1]})"
        elif name not in _MIN_METADATA_VERSIONS:
            raise ToolError(f"Unknown feature: {name}")
        elif not 0 <= level <= len(_MIN_METADATA_VERSIONS[name]):
            raise ToolError(f"No feature:{name} with feature level {level}")
        version = _DEPENDENCIES.get((name, level))
        if version is None:
            write_line(f"{feature_text} has no dependencies.")
        else:
            write_line(f"{feature_text} requires:\n    {_METADATA_FEATURE}={_VERSIONS.index(version) + 1} ({version})")


def _parse_feature(text: str) -> tuple[str, int]:
    name, equals, level = (part.strip() for part in text.partition("="))
    if not equals:
        raise ToolError(f"Can't parse feature=level string {text}: equals sign not found.")
    try:
        return name, to_long(level)
    except ValueError:
        raise ToolError(f"Can't parse feature=level string {text}: unable to parse {level} as a short.") from None


def _update_features(cluster: Cluster, command: str, levels: Mapping[str, int], values: Values) -> None:
    kind = _UNSAFE_DOWNGRADE if values.has("unsafe") else _SAFE_DOWNGRADE
    kind = _UPGRADE if command == "upgrade" else kind
    request = api.UpdateFeaturesRequest(
        feature_updates=[
            api.FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind, allow_downgrade=kind > 1)
            for name, level in levels.items()
        ],
        validate_only=values.has("dry-run"),
    )
    response: api.UpdateFeaturesResponse = cluster.ask_controller(request)
    errors = dict.fromkeys(levels, find_error(response)) | {
        result.feature: find_error(result) for result in response.results
    }
    for name, error in sorted(errors.items()):
        if error is not None:
            target = name if command == "disable" else f"{name} to {levels[name]}"
            could = "Can not" if values.has("dry-run") else "Could not"
            write_line(f"{could} {command} {target}. {error.message}")
        else:
            verb = "can be" if values.has("dry-run") else "was"
            outcome = "disabled" if command == "disable" else f"{command}d to {levels[name]}"
            write_line(f"{name} {verb} {outcome}.")
    if failures := sum(error is not None for error in errors.values()):
        raise ToolError(f"{failures} out of {len(levels)} operation(s) failed.")
