"""Where the server meets the network and the machine: connections, and the resources of the process."""
