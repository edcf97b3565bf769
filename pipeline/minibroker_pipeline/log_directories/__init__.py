"""Reads and writes Kafka's log directories without a broker."""
