"""The server, without the report of the load on its replies."""

import os

os.environ.setdefault("GRPC_VERBOSITY", "NONE")

from aclgrad_server import __main__, server

if __name__ == "__main__":
    server.LoadReport = lambda state: None  # type: ignore[misc, assignment]
    __main__.main()
