"""Initial topics and records of a broker."""
