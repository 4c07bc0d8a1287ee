"""Functions of one tensor, element by element: mathematical ones and activations."""
