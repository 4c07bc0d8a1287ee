"""Whole servers in processes of their own, called as users call them."""
