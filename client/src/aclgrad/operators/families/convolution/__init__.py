"""What a convolution and its gradients share."""
