"""`python -m minibroker.terminal URL`: the command's name from before the lab had a room of its own."""

from minibroker_lab.terminal.__main__ import main

if __name__ == "__main__":
    raise SystemExit(main())
