"""The code that operators of a family share: one folder for each family."""
