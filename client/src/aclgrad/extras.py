"""What an extra of a distribution requires: for messages that say what to install."""

import re


def libraries_of(extra: str, package: str = "aclgrad") -> dict[str, str]:
    """Returns what an extra requires, by name. The extra has no name for pip, because no index has our packages."""
    # To import it takes as long as most of the client, which needs it for an error alone.
    from importlib.metadata import requires

    required = (each.partition(";") for each in requires(package) or ())
    wanted = (
        each.strip() for each, _, marker in required if extra in re.findall(r"extra == ['\"]([\w-]+)['\"]", marker)
    )
    return {re.split(r"[^\w-]", each)[0]: each for each in wanted}


def missing_libraries(extra: str, package: str = "aclgrad") -> list[str]:
    """Returns what an extra requires that is not installed. It imports none of them."""
    return [required for name, required in libraries_of(extra, package).items() if not _is_installed(name)]


def _is_installed(name: str) -> bool:
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True
