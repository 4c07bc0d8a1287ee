"""What several operators of a family share: a folder for each family."""
