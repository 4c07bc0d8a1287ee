"""aclnnTanhBackward: the gradient of the hyperbolic tangent."""
