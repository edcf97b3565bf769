"""What the command line is made of beside its options, and what it says to people."""
