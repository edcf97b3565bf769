"""TLS, as Kafka configures it, and the certificates that it needs."""
