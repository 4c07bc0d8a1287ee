"""aclnnGeluBackward: the gradient of GELU, approximated by a hyperbolic tangent."""
