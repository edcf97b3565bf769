"""The stages in order. Each stage builds on the previous ones."""
