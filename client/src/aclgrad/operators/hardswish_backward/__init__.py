"""aclnnHardswishBackward: the gradient of hard swish."""
