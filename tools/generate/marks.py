"""What a command writes into a page: the text between two marks, which name its subject and the command."""


def parts(page: str, subject: str, writer: str, name: str) -> tuple[str, str, str]:
    """Returns what stands before, between and behind the marks, with the marks outside.

    Raises ValueError, with the page's name, if a mark is missing.
    """
    start, end = f"<!-- {subject}: written by `{writer}` -->\n", f"<!-- end of {subject} -->\n"
    before, found, rest = page.partition(start)
    text, closed, after = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"{name} lacks the line {(end if found else start).strip()}")
    return before + start, text, end + after


def replaced(page: str, subject: str, writer: str, name: str, text: str) -> str:
    """Returns the page with this text between the marks; raises as `parts` does."""
    before, _, after = parts(page, subject, writer, name)
    return before + text + after
