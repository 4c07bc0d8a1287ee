"""aclnnUpsampleBilinear2dBackwardV2: the gradient of bilinear upsampling."""
