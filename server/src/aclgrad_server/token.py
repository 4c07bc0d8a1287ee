"""`aclgrad-server token`: makes a client's token, and its digest for the file of identities."""

import argparse
import secrets
from hashlib import sha256

_DESCRIPTION = """\
Print a new random token, and its SHA-256. Give the client the token (ACLGRAD_TOKEN), and put the digest into the file
of --identities: the server keeps no token, and the file lets nobody in who reads it."""


def main(arguments: list[str], program: str) -> None:
    argparse.ArgumentParser(program, description=_DESCRIPTION, allow_abbrev=False).parse_args(arguments)
    token = secrets.token_urlsafe(32)
    print(f'token: {token}\ntoken_sha256 = ["{sha256(token.encode()).hexdigest()}"]')
