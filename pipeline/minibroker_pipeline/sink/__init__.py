"""The sink of `format("minibroker")`, which writes rows as topic directories for minibroker and Apache Kafka."""
