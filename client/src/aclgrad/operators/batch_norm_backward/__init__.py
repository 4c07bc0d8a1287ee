"""aclnnBatchNormBackward: the gradients of batch normalisation."""
