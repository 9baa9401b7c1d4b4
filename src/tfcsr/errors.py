"""What a user or a run can meet with. The message is one line: what is wrong, which value, what to do."""

LONGEST = 2000


def printable(text: str) -> str:
    """The text on one line, with whatever could steer a terminal spelled out. For all that comes from a file."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def counted(number: int, thing: str, things: str = "") -> str:
    """So many of a thing, in the singular where it is one. The only place that decides it."""
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {things or thing + 's'}"


class TfcsrError(Exception):
    """Every error that is not a bug of ours. The command line prints its message and exits with code 2."""

    def __init__(self, message: str) -> None:
        message = printable(message)
        if len(message) > LONGEST:  # a value from a file can be as long as the file
            message = f"{message[: LONGEST * 2 // 3]} ... {message[-LONGEST // 3 :]}"
        super().__init__(message)


class TfcsrWarning(UserWarning):
    """What goes another way than one would expect, and why."""


class SpecError(TfcsrError):
    """A spec field that does not exist or has an impossible value."""


class DataError(TfcsrError):
    """Data files that are missing, damaged or not what they claim to be."""


class DeviceError(TfcsrError):
    """A device or precision this machine does not have."""


class OutOfMemoryError(DeviceError):
    """The device has no room for this run, or not beside the others."""


class OutputError(TfcsrError):
    """A results folder that cannot be used or written."""


class BusyError(OutputError):
    """A results folder that another process is at work in."""


class DivergedError(TfcsrError):
    """The loss became NaN or infinite."""


class ProcessError(TfcsrError):
    """Processes that train together and lost each other."""
