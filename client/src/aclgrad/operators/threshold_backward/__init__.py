"""aclnnThresholdBackward: the gradient of a threshold; of ReLU with the threshold 0."""
