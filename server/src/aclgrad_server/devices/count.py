"""A program that prints how many devices an ACL library shows: `python -m aclgrad_server.devices.count BACKEND CONFIG`.

A process that ends asks, so that nothing of the runtime stays in the one that wants to know.
"""

import sys

from aclgrad_server.devices import native


def main() -> None:
    """Prints the number; ends with a traceback if the library does not tell it."""
    backend, config = sys.argv[1:]
    print(native.open(backend, config or None).device_count(), flush=True)


if __name__ == "__main__":
    main()
