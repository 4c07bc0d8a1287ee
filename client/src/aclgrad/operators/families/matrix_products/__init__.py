"""Matrix products: an operator is a row of each module."""
