"""aclnnUpsampleNearest2dBackward: the gradient of nearest-neighbour upsampling."""
