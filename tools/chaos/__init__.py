"""Chaos: faults by a seed while clients of every kind call, a history of all of it, and one validator of that."""
