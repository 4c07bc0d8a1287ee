"""Functions of a tensor and a number, element by element."""
