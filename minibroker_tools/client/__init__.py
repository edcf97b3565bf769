"""A small blocking client of Kafka's protocol: connections, logins, brokers, records."""
