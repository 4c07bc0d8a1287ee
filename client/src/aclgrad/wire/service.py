"""What the service, its methods and the trailer of its servers are called. Clients and servers share it."""

from typing import Final

SERVICE_NAME: Final = "aclgrad.v1.OperatorService"
SERVICE: Final = f"/{SERVICE_NAME}/"
"""What stands before the name of a method."""
SERVER: Final = "aclgrad-server"
"""The trailer by which a server names itself on replies to operator calls, and on their errors."""


def path_of(method: str) -> str:
    """Returns what gRPC calls a method of our service; another service's name is complete."""
    return method if method.startswith("/") else SERVICE + method
