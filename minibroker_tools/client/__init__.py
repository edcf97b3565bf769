"""A small blocking client for Kafka's protocol: connections, logins, brokers and records."""
