"""Share-partitions: which records of a partition the members of a share group have in hand (KIP-932)."""
