"""Quotas: over what time rates are measured, and who decides them."""

from minibroker.config.keys import CLASS, INT, LOW, POSITIVE, REPORTED, ConfigKey

# fmt: off
KEYS = (
    ConfigKey("alter.log.dirs.replication.quota.window.num", INT, 11, POSITIVE, LOW, REPORTED,
              "How many windows of time a limit on moving replicas between directories looks back on."),
    ConfigKey("alter.log.dirs.replication.quota.window.size.seconds", INT, 1, POSITIVE, LOW, REPORTED,
              "How long each of those windows is."),
    ConfigKey("client.quota.callback.class", CLASS, None, None, LOW, REPORTED,
              "A Java class that decides quotas of clients; there is no JVM here to run it."),
    ConfigKey("replication.quota.window.num", INT, 11, POSITIVE, LOW, REPORTED,
              "How many windows of time a limit on replication looks back on."),
    ConfigKey("replication.quota.window.size.seconds", INT, 1, POSITIVE, LOW, REPORTED,
              "How long each of those windows is."),
)
# fmt: on
