"""`aclgrad replay`: the backward calls of an msprobe dump, computed by a server and judged."""
