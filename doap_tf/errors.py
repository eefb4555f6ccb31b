"""Telling what a user can mend, bad input or too little memory, from a bug."""


class InputError(ValueError):
    """Bad input. The message is one line: what was found, what is expected, what to do."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether Python, NumPy, OpenCV or TensorFlow says that there is too little memory."""
    return (
        isinstance(error, MemoryError)
        or type(error).__name__ == "ResourceExhaustedError"
        or any(words in str(error) for words in ("Insufficient memory", "bad_alloc"))
    )
