"""TLS with Kafka's configuration, and creation of certificates."""
