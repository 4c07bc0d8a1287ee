"""aclnnLeakyReluBackward: the gradient of leaky ReLU."""
