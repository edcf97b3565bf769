"""The lab: pages, a terminal and traces that show what the broker does."""
