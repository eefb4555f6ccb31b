"""The error that bad input raises, so that commands can tell it from a bug."""


class InputError(ValueError):
    """Input that the user can mend: one line on what was found, what is wanted, what to do."""
