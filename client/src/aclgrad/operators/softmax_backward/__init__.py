"""aclnnSoftmaxBackward: the gradient of softmax along one axis."""
