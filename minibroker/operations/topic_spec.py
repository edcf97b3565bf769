"""Topics as people write them on a command line: NAME[:PARTITIONS[:key=value,...]]."""

from typing import NamedTuple

from minibroker.topic_admin import DEFAULT


class TopicSpec(NamedTuple):
    """A topic that should be there when the broker starts."""

    name: str
    partitions: int
    configs: dict[str, str | None]

    @classmethod
    def parse(cls, text: str) -> "TopicSpec":
        """Read "orders", "orders:4" or "orders:4:cleanup.policy=compact,segment.bytes=1048576".

        ValueError that says what is wrong.
        """
        name, _, rest = text.partition(":")
        count, _, settings = rest.partition(":")
        if count and not (count.isascii() and count.isdigit()):
            advice = "; name each topic apart" if " " in text else ""
            raise ValueError(f"{text!r}: {count!r} is not a number of partitions{advice}")
        configs: dict[str, str | None] = {}
        for setting in filter(None, settings.split(",")):
            key, equals, value = setting.partition("=")
            if not equals:
                # A list value holds commas itself: cleanup.policy=compact,delete
                if not configs:
                    raise ValueError(f"{text!r}: {setting!r} is not key=value")
                last = next(reversed(configs))
                configs[last] = f"{configs[last]},{setting}"
                continue
            configs[key] = value
        return cls(name, int(count) if count else DEFAULT, configs)
