"""Telling what a user can mend, bad input or too little memory, or stopped, from a bug."""


class InputError(ValueError):
    """Bad input. The message is one line: what was found, what is expected, what to do."""


class Interrupted(Exception):
    """Raised when a signal stopped work that the same command will resume."""


def one_line(error: BaseException) -> str:
    """Returns the text of an error without line breaks."""
    return " ".join(str(error).split())


def error_line(error: BaseException) -> str:
    """Returns the kind and the text of an error in one line."""
    return f"{type(error).__name__}: {one_line(error)}"


def is_out_of_memory(error: BaseException) -> bool:
    """Whether Python, NumPy, OpenCV or TensorFlow says that there is too little memory."""
    return (
        isinstance(error, MemoryError)
        or type(error).__name__ == "ResourceExhaustedError"
        or any(words in str(error) for words in ("Insufficient memory", "bad_alloc"))
    )
