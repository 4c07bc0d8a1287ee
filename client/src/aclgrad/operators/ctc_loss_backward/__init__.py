"""aclnnCtcLossBackward: the gradient of connectionist temporal classification."""
