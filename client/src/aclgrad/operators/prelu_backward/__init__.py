"""aclnnPreluBackward: the gradients of PReLU."""
