"""What a user or a run can meet with. The message is one line: what is wrong, which value, what to do."""


class TfcsrError(Exception):
    """Every error that is not a bug of ours. The command line prints its message and exits with code 2."""


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


class DivergedError(TfcsrError):
    """The loss became NaN or infinite."""
