"""`aclgrad replay`: the calls of an msprobe dump, computed by a server and judged."""
