"""aclnnMaxPool2dWithMaskBackward: the gradient of two-dimensional max pooling."""
