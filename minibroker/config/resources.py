"""Resources that have a configuration."""

from enum import IntEnum


class ConfigResourceType(IntEnum):
    """Numbered as in DescribeConfigs (`ConfigResource.Type`)."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32
