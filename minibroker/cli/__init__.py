"""The command line: `minibroker serve`, `dump` and `certificates`."""
