"""What clients measure of themselves, and send to the broker (KIP-714)."""
