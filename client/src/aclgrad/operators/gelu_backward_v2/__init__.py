"""aclnnGeluBackwardV2: the gradient of GELU, exact or approximated."""
