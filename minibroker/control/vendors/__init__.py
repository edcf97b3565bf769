"""HTTP APIs of other vendors' brokers that health checks and Testcontainers ask: a few of their routes."""
