"""Servers that Ray places, on a cluster of two nodes: `make test-ray`."""

import os

# Before Ray is loaded: no reports to its makers, no token in the home folder.
os.environ.update(RAY_USAGE_STATS_ENABLED="0", RAY_AUTH_MODE="disabled")
