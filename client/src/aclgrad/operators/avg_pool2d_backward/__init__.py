"""aclnnAvgPool2dBackward: the gradient of two-dimensional average pooling."""
