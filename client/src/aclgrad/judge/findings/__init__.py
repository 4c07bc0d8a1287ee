"""Judging gradients, and keeping and showing findings: shared by all commands that compare."""
