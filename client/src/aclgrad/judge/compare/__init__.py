"""`aclgrad compare`: what two servers compute of the same calls, each beside the definition and both beside another."""
