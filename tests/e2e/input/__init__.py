"""Input that is refused."""
