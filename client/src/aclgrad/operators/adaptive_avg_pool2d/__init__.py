"""aclnnAdaptiveAvgPool2d: adaptive average pooling over the last two dimensions."""
