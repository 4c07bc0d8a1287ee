"""aclnnRotaryPositionEmbeddingGrad: the gradients of the rotary position embedding."""
