"""Where the server meets the network: listeners, channel options, limits."""
