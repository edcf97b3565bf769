"""The lab in a terminal: requests with their bytes and fields, logs and state.

`python -m minibroker_lab.terminal URL` is a program of its own beside the broker, so that it takes no time from the
broker's process. It asks a page for the same JSON as a browser does. It takes the extra `lab`.
"""
