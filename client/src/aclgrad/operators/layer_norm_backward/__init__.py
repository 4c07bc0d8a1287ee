"""aclnnLayerNormBackward: the gradients of layer normalisation."""
