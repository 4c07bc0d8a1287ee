"""The requirements of a distribution's extras, for messages that say what to install."""

import re


def remedy_of(extra: str) -> str:
    """Returns the command to install a missing extra of the client; pip needs no index for an installed client."""
    return f"run: pip install 'aclgrad[{extra}]'"


def of_extra(error: ModuleNotFoundError, extra: str) -> ModuleNotFoundError:
    """Returns the error of a bridge whose library cannot be imported."""
    if error.name != extra:
        return error
    problem = f"aclgrad.{extra} needs {extra}, which is not installed"
    return ModuleNotFoundError(f"{problem}; {remedy_of(extra)}", name=extra)


def libraries_of(extra: str, package: str = "aclgrad") -> dict[str, str]:
    """Returns the requirements of an extra by name."""
    # Importing it takes as long as most of the client, which needs it only for an error.
    from importlib.metadata import requires

    required = (each.partition(";") for each in requires(package) or ())
    wanted = (
        each.strip() for each, _, marker in required if extra in re.findall(r"extra == ['\"]([\w-]+)['\"]", marker)
    )
    return {re.split(r"[^\w-]", each)[0]: each for each in wanted}


def missing_libraries(extra: str, package: str = "aclgrad") -> list[str]:
    """Returns an extra's requirements that are not installed, without importing any."""
    return [required for name, required in libraries_of(extra, package).items() if not _is_installed(name)]


def _is_installed(name: str) -> bool:
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True
