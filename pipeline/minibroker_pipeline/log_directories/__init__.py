"""Kafka's log directories, read and written without a broker."""
