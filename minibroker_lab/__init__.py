"""The lab: a web page, a terminal program and traces that show what a broker does."""
