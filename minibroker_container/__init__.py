"""Translates the environment and the files of Kafka's container images for minibroker."""
