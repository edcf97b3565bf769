"""`python -m minibroker.terminal URL`: an alias from the time before `minibroker_lab` existed."""

from minibroker_lab.terminal.__main__ import main

if __name__ == "__main__":
    raise SystemExit(main())
