"""aclnnRoiAlignV2Backward: the gradient of RoI align."""
