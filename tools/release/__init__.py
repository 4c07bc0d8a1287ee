"""A release: the checks before it, the commit and tag, and the files. Nothing leaves the machine."""


class RefusedError(Exception):
    """The release cannot be made; the text says why, and what to do."""
