"""aclnnReflectionPad3dBackward: the gradient of reflection padding over three dimensions."""
