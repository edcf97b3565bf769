"""The environment and the files of Kafka's container images, translated for minibroker."""
