"""aclnnConvolutionBackward: the gradients of a convolution, also of a transposed one."""
