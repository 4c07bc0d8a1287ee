"""Average and max pooling over the last two axes."""
