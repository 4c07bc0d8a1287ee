"""The codec."""
