"""Two-dimensional max pooling: with the argmax, or with a mask of the product's own."""
