"""Errors that end a run, each with its exit code."""

EXIT_OK = 0
EXIT_WRONG = 1
EXIT_USAGE = 2
EXIT_MISSING = 3
EXIT_DIED = 4
EXIT_INTERRUPTED = 130
EXIT_UNREAD = 141  # the shell's status for a program ended by SIGPIPE


class CclmarkError(Exception):
    """A failure with a message that includes a remedy for the user."""

    exit_code = EXIT_DIED


class UsageError(CclmarkError):
    """The request is invalid or not supported."""

    exit_code = EXIT_USAGE


class EmptyError(UsageError):
    """A file holds no result, for example of a run that ended before its first one."""

    def __init__(self, message: str, name: str, why: str) -> None:
        """``name``: of the file. ``why``: the reason, empty if unknown."""
        super().__init__(message)
        self.notice = f"{name} holds no result" + (f": {why}" if why else "")


class WrongDataError(UsageError):
    """The data that the request needs are wrong outputs."""

    exit_code = EXIT_WRONG


class MissingError(CclmarkError):
    """A requirement is missing on this machine."""

    exit_code = EXIT_MISSING


# Packages that a plain installation lacks, and the extras that have them.
_EXTRAS = {
    "sqlalchemy": "history",
    "perfetto": "timelines",
    **dict.fromkeys(("networkx", "numpy"), "scale"),
    **dict.fromkeys(("starlette", "uvicorn"), "serve"),
}


def without_package(error: ModuleNotFoundError) -> Exception:
    """Returns MissingError with the remedy if the package belongs to an extra, else ``error``."""
    package = (error.name or "").partition(".")[0]
    if package not in _EXTRAS:
        return error
    extra = f"pip install 'cclmark[{_EXTRAS[package]}]'"
    return MissingError(f"{package}, which this requires, is not installed: {extra}")


class RefusedError(MissingError):
    """All ranks have decided alike that their work is not possible on these devices."""


class OutputError(CclmarkError):
    """Results can no longer be written."""

    exit_code = EXIT_MISSING


class RankError(CclmarkError):
    """A rank died, failed or did not answer in time."""

    exit_code = EXIT_DIED


class UnreadError(BaseException):
    """The output has no reader any more: a run ends and keeps its results, others end silently.

    A BaseException, as for an interruption, so that handlers of errors do not catch it.
    """

    def __init__(self) -> None:
        super().__init__("no process reads the output any more")


class Followed(Exception):  # noqa: N818 - not an error: the work of this process is complete
    """A process other than the first one has completed a run with this exit code."""

    def __init__(self, exit_code: int) -> None:
        super().__init__(exit_code)
        self.exit_code = exit_code
