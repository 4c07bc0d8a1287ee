"""aclnnGridSampler2DBackward: the gradients of sampling an image at the points of a grid."""
