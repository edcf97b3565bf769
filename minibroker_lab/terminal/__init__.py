"""The lab in a terminal: requests with their bytes and fields, logs and state.

`python -m minibroker_lab.terminal URL` runs as a separate program, so that it takes no CPU time from the broker's
process. Like a browser, it fetches JSON from a page. It requires the extra `lab`.
"""
