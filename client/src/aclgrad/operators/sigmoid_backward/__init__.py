"""aclnnSigmoidBackward: the gradient of the logistic sigmoid."""
