"""The error for input that a user can mend, so that commands can tell it from a bug."""


class InputError(ValueError):
    """Bad input. The message is one line: what was found, what is expected, what to do."""
