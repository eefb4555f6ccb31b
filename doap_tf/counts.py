"""Numbers with their nouns, for messages and titles."""


def count(number: int, noun: str) -> str:
    """Returns a number with its noun: "1 match", "2,000 matches"."""
    if number == 1:
        return f"1 {noun}"
    return f"{number:,} {noun}{'es' if noun.endswith('ch') else 's'}"
