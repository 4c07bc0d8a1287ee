"""aclnnMaxPool2dWithIndicesBackward: the gradient of two-dimensional max pooling, given its argmax."""
