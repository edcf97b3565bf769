"""Brokers of one cluster in several processes: one holds the logs, and the others pass their clients on to it."""
