"""Programs: steps that are collected, sent together, and may use each other's outputs."""
