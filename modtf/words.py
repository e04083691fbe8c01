"""Numbers and names as words."""


def plural(count: int, word: str) -> str:
    """Return a count with its noun: "1 cell", "2,000 cells"."""
    return f"{count:,} {word}" + ("" if count == 1 else "s")
