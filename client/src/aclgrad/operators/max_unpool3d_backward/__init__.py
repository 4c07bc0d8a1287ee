"""aclnnMaxUnpool3dBackward: the gradient of three-dimensional max unpooling."""
