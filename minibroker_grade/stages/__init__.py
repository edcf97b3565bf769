"""The stages. Each stage builds on the previous ones."""
