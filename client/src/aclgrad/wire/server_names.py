"""The trailer by which a server names itself on replies to operator calls, and on their errors."""

from typing import Final

SERVER: Final = "aclgrad-server"
