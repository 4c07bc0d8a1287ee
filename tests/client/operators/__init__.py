"""The operator table."""
