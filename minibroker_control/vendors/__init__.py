"""Parts of other vendors' HTTP APIs that health checks and Testcontainers use."""
