"""aclnnMaxUnpool2dBackward: the gradient of two-dimensional max unpooling."""
