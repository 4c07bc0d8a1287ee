"""Every operator on every product: the gradients that come back."""
