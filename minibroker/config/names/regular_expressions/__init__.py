"""Regular expressions that clients send: RE2/J's syntax, matched in a time that grows with the text alone."""
