"""Regular expressions sent by clients, with RE2/J's syntax and a matching time linear in the length of the text."""
