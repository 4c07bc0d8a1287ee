"""Who the attacker is to a server with identities: nobody, or a tenant beside the bystander.

The role is a variable of the environment, because attackers are processes of their own.
"""

import os
from hashlib import sha256
from pathlib import Path
from typing import Final

ROLE: Final = "HOSTILE_ROLE"
ROLES: Final = ("anonymous", "tenant")
_TOKEN: Final = "token-of-the-attacker"
_IDENTITIES: Final = f"""
[identities.bystander]
unix_socket = true
rights = ["execute", "status"]

[identities.attacker]
token_sha256 = ["{sha256(_TOKEN.encode()).hexdigest()}"]
"""


def has_identities() -> bool:
    """Whether the servers of this run have identities."""
    return bool(os.environ.get(ROLE))


def let_attackers_in() -> None:
    """Makes attackers that are started from now on tenants, if there are identities."""
    if has_identities():
        os.environ[ROLE] = "tenant"


def server_flags(folder: Path) -> tuple[str, ...]:
    """Returns what a server of this run is started with; without a role, it has no identities."""
    if not has_identities():
        return ()
    file = folder / "identities.toml"
    file.write_text(_IDENTITIES)
    return "--identities", str(file)


def own_metadata() -> dict[str, str]:
    """Returns what the attacker's calls carry."""
    return {"authorization": f"Bearer {_TOKEN}"} if os.environ.get(ROLE) == "tenant" else {}
