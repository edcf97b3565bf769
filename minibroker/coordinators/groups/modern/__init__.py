"""The code shared by consumer, share and streams groups, which Kafka calls modern groups."""
