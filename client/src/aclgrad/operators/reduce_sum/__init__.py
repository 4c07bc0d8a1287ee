"""The sum of a tensor over some of its axes."""
