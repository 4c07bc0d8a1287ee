"""aclnnBatchNorm: batch normalisation."""
