"""Faults by a seed while clients of every kind call; one validator judges the history."""
