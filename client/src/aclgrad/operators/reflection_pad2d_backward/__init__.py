"""aclnnReflectionPad2dBackward: the gradient of reflection padding over two dimensions."""
