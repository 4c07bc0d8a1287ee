"""aclnnEmbeddingDenseBackward: the gradient of the weight of an embedding."""
