"""aclnnReflectionPad1dBackward: the gradient of reflection padding over one dimension."""
