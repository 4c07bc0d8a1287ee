"""aclnnSwiGluGrad: the gradient of SwiGLU, SiLU(A) * B of the halves of a tensor."""
