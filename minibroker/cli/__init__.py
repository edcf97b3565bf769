"""The command line: `minibroker serve`, `lab`, `dump`, `trace`, `grade`, `registry` and `certificates`."""
