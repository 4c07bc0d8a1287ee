"""aclnnConvolution: convolutions and transposed convolutions along one to three axes."""
