"""One row for each function that PyTorch computes here and a server differentiates, by subject."""
