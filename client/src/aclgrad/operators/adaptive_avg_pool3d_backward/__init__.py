"""aclnnAdaptiveAvgPool3dBackward: the gradient of adaptive average pooling over the last three dimensions."""
