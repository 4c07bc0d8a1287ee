"""What is taken from a tensor, or added to it, by positions: an operator is a row of each module."""
