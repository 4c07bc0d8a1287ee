"""aclnnSiluBackward: the gradient of SiLU, x * sigmoid(x)."""
