"""aclnnLogSoftmaxBackward: the gradient of the logarithm of softmax along one axis."""
