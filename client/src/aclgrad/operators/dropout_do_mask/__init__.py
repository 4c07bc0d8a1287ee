"""aclnnDropoutDoMask: dropout by a packed mask."""
