"""The stages in their order; each builds on those before it."""
