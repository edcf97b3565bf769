"""The sink of `format("minibroker")`. It writes rows as topic directories that minibroker and Apache Kafka can open."""
