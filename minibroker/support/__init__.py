"""Tools that know nothing of a broker: work in slices, files and texts that people write, regular expressions."""
