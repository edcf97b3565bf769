"""The command line: `minibroker serve`, `lab`, `dump`, `trace`, `grade` and `certificates`."""
