"""aclnnRmsNormGrad: the gradients of root mean square normalisation."""
