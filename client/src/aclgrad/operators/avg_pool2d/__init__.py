"""aclnnAvgPool2d: two-dimensional average pooling."""
