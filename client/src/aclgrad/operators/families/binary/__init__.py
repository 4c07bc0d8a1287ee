"""Functions of two tensors, element by element, which are broadcast to each other."""
