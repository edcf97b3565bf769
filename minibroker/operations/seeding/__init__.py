"""Topics and records that a broker starts with."""
