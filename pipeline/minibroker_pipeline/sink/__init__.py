"""The sink of `format("minibroker")`: rows become topic directories that minibroker and Apache Kafka open."""
