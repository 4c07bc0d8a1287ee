"""What the bridges to PyTorch and JAX share; it knows neither."""
