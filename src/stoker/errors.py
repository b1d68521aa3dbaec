"""Everything Stoker can say no with.

    StokerError                 exit 2
    ├── UsageError              the command line cannot be understood
    ├── CommandNotFound         the training command does not exist      exit 127
    ├── CommandNotRunnable      it exists and cannot be executed         exit 126
    ├── RunNotFound             no such run folder
    ├── FolderError             a folder cannot be written or read
    ├── NothingReadable         none of the given files is of a known kind
    ├── DeviceInUse             a trial would not have its GPU for itself
    └── GuardFailed             a trial could write to the user's files, and nobody agreed to that

An error has three parts: what failed, what was seen, what to do.
"""


class StokerError(Exception):
    exit_code = 2

    def __init__(self, message: str, *, seen: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.seen = seen
        self.hint = hint

    def __str__(self) -> str:
        lines = [f"error: {self.message}"]
        if self.seen:
            lines.append(f"  seen: {self.seen}")
        if self.hint:
            lines.append(f"  try:  {self.hint}")
        return "\n".join(lines)


class UsageError(StokerError):
    pass


class CommandNotFound(StokerError):
    exit_code = 127


class CommandNotRunnable(StokerError):
    exit_code = 126


class RunNotFound(StokerError):
    pass


class FolderError(StokerError):
    pass


class NothingReadable(StokerError):
    pass


class DeviceInUse(StokerError):
    pass


class GuardFailed(StokerError):
    pass
