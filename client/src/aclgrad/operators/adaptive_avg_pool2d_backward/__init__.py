"""aclnnAdaptiveAvgPool2dBackward: the gradient of adaptive average pooling over the last two dimensions."""
