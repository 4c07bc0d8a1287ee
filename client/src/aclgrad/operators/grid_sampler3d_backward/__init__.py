"""aclnnGridSampler3DBackward: the gradients of sampling a volume at the points of a grid."""
