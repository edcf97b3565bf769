"""Regular expressions from clients, with RE2/J's syntax and a matching time linear in the text."""
