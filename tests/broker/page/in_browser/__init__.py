"""Tests of the page in a browser. They are a package, because its fixture `browser` ends with its last test."""
