"""`python -m minibroker.terminal URL`: the old name of the command, from before `minibroker_lab` existed."""

from minibroker_lab.terminal.__main__ import main

if __name__ == "__main__":
    raise SystemExit(main())
