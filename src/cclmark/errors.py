"""Errors that end a run, each with the exit code that it means."""

EXIT_OK = 0
EXIT_WRONG = 1
EXIT_USAGE = 2
EXIT_MISSING = 3
EXIT_DIED = 4
EXIT_INTERRUPTED = 130
EXIT_UNREAD = 141  # as the shell says it of a program that SIGPIPE ended


class CclmarkError(Exception):
    """A failure whose message tells the user what to do about it."""

    exit_code = EXIT_DIED


class UsageError(CclmarkError):
    """What was asked for makes no sense or is not supported."""

    exit_code = EXIT_USAGE


class MissingError(CclmarkError):
    """Something that is needed is not on this machine."""

    exit_code = EXIT_MISSING


class OutputError(CclmarkError):
    """Results cannot be written any more."""

    exit_code = EXIT_MISSING


class RankError(CclmarkError):
    """A rank died, failed or did not answer in time."""

    exit_code = EXIT_DIED


class UnreadError(BaseException):
    """Nobody reads the output any more: a run ends with everything kept, anything else silently.

    Like an interruption it is nothing that a handler of errors should hold up.
    """

    def __init__(self) -> None:
        super().__init__("nobody reads the output any more")


class Followed(Exception):  # noqa: N818 - no error: this process has done its part
    """This process was not the first of a run: all is done, and this is how it ended."""

    def __init__(self, exit_code: int) -> None:
        super().__init__(exit_code)
        self.exit_code = exit_code
