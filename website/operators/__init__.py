"""The page of each operator, written from its folder."""
