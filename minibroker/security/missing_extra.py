"""The error for a missing package that only some users need."""

from minibroker_storage.installation_hints import missing


class MissingExtraError(ValueError):
    """A package of the extra `security` is not installed."""


def missing_extra(feature: str, package: str) -> MissingExtraError:
    """The error of something that needs a package of the extra."""
    return MissingExtraError(f"{feature}: {missing(package, 'security')}")
