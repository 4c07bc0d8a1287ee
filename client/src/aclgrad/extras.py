"""What an extra of a distribution requires: for messages that say what to install."""

import re


def remedy_of(extra: str) -> str:
    """Returns what to run if an extra of the client is missing: pip needs no index to know a client that it has."""
    return f"run: pip install 'aclgrad[{extra}]'"


def of_extra(error: ModuleNotFoundError, extra: str) -> ModuleNotFoundError:
    """Returns what the bridge of an extra raises if the import of the library of that name fails."""
    if error.name != extra:
        return error
    problem = f"aclgrad.{extra} needs {extra}, which is not installed"
    return ModuleNotFoundError(f"{problem}; {remedy_of(extra)}", name=extra)


def libraries_of(extra: str, package: str = "aclgrad") -> dict[str, str]:
    """Returns what an extra requires, by name."""
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
