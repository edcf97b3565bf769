"""The lab in a terminal: requests with their bytes and fields, logs and state.

`python -m minibroker_lab.terminal URL` runs as a separate program, so it takes no time from the broker's process. It
fetches the same JSON from a page as a browser does. It requires the extra `lab`.
"""
