"""The entry point: a table of contents of the commands, and the topics of ``cclmark help TOPIC``.

Each topic is one screen; docs/reference/cli.md has them too.
"""

from __future__ import annotations

import errno
import io
import os
import signal
import sys
import time
from typing import TYPE_CHECKING

import click

from cclmark.base.errors import (
    EXIT_INTERRUPTED,
    EXIT_MISSING,
    EXIT_UNREAD,
    CclmarkError,
    Followed,
    RankError,
    UnreadError,
    UsageError,
)
from cclmark.base.grouping import abridged
from cclmark.base.signals import interrupt, note, on_ending_signals
from cclmark.base.standard_error import print_folded, tell
from cclmark.base.streams import prepare_streams
from cclmark.base.version import VERSION
from cclmark.cli.commands import COMMANDS, FORMER, GROUPS, UNLISTED, commands_with, load_command
from cclmark.options.printed_help import SaysHelp
from cclmark.recording.standard_output import say
from cclmark.work.operations import COLLECTIVES

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


TOPICS = {
    "sizes": """\
A size is a number and a unit: 8, 128K, 1.5M, 4G, 1T. K, KB and KiB are the
same, 1024 bytes, in upper or lower case. It is a whole number of bytes, at
least 1 and below 1024T.

  -b 8 -e 128M          8 B, 16 B, 32 B, ... 128 MiB: each twice the last one
  -b 1M -e 1G -f 4      1 MiB, 4 MiB, ... 1 GiB
  -b 1M -e 8M -i 1M     1 MiB, 2 MiB, ... 8 MiB
  -b 64M -e 64M         one size

A sweep begins with -b and multiplies by -f (rounded down) or adds -i until it
exceeds -e; -f and -i exclude each other.

The size of all_reduce, broadcast, reduce and sendrecv is that of one rank's
vector; of all_gather, reduce_scatter, alltoall, gather and scatter that of all
ranks' parts together, as in nccl-tests; of alltoallv that of the rank that
sends most. Sizes are rounded down to whole elements, which a notice reports,
and sizes without an element are left out.""",
    "units": """\
time     microseconds for one operation: the median of the samples, of the
         slowest rank (--across-ranks)
algbw    size / time
busbw    algbw times the factor below: the rate of the busiest rank's link in
         one direction, which can be compared with the hardware
GB/s     10^9 bytes per second, as in nccl-tests and data sheets
KiB      1024 bytes; K, M, G and T of options are powers of 1024 too

Factors, for n ranks:
  all_reduce                                             2(n-1)/n
  all_gather reduce_scatter alltoall gather scatter      (n-1)/n
  broadcast reduce sendrecv                              1
  alltoallv                  the busiest rank's bytes from and to others / size

The factors are those of nccl-tests (doc/PERFORMANCE.md).""",
    "devices": """\
Default: all devices of the first kind of accelerator that has any; without
accelerators the host, with 2 to 8 ranks, which the output says.

  -g 4                      the first four accelerators
  --devices 0,2,3           some of them; also 0-3
  --devices cuda:0-3        of this runtime: cuda, acl, hip, maca, musa, tops,
                            cudart, cnrt or tang
  --devices host            processors as devices, through shared memory
  --devices host:4          four of them
  --devices cuda:0-1+host:2 different ones, with --ccl bridge

Each rank is a process with one device. Variables such as
CUDA_VISIBLE_DEVICES are respected. Accelerators that were found and cannot be
used are an error with code 3, never replaced by the host.

Several hosts: start cclmark with torchrun, mpirun or srun (cclmark help
launchers). What this machine has: cclmark info.""",
    "libraries": """\
Default: the library of the devices: nccl for cuda, hccl for acl, rccl for hip,
shm for the host and so on.

  --ccl nccl                one library
  --ccl nccl,torch:nccl     several, side by side, in one table
  --ccl torch:gloo          a backend of torch.distributed
  --ccl mpi                 an MPI; starts mpirun itself
  --ccl bridge              devices of several vendors, or several hosts
  --ccl-path FILE           this file of the library
  --ccl-file TOML           a library of your own, by a description

Search order: --ccl-path, CCLMARK_NCCL_LIBRARY (CCLMARK_HCCL_LIBRARY, ...),
wheels of this Python, the dynamic loader. The path and the version are printed
and kept with every run.

What this machine has: cclmark info; what each library can do: cclmark info
--ccls; its settings: cclmark settings --ccl NAME.""",
    "launchers": """\
Alone, cclmark starts a process for each device of its host. Started several
times by a launcher, its processes become one run with one table:

  torchrun --nproc-per-node 8 -m cclmark all_reduce -b 8 -e 4G
  mpirun -np 8 cclmark all_reduce -b 8 -e 4G
  srun --nodes 4 --ntasks-per-node 8 --gres gpu:8 cclmark all_reduce -b 8 -e 4G

Open MPI, MPICH, MVAPICH, Slurm, Flux, PALS, torchrun and Kubernetes pods are
detected by their variables; CCLMARK_LAUNCHER names one, or none for this host
alone. The measured library need not be MPI.

Processes on several hosts meet through a directory that all of them share,
~/.cache/cclmark or CCLMARK_SHARED_DIR, or by CCLMARK_SECRET and
CCLMARK_ADDRESS without one.

The first process prints and writes the journal. All processes exit with the
same code.""",
    "formats": """\
--format sets what is printed, to standard output or to the file of -O:

  table        for people: a row per size, findings below
  json         one document: header, cases, findings
  csv          a line per case; --columns A,B chooses fields
  markdown     tables for issues and wikis
  nccl-tests   the layout of nccl-tests (also hccl, flagcx, and pccl for p2p)

Every run also writes a journal, JSON lines in cclmark-runs/ or --journal FILE,
with all samples. From journals:

  cclmark report run.jsonl                      one HTML page
  cclmark export run.jsonl --format parquet     also csv, json, prometheus, ...
  cclmark compare before.jsonl after.jsonl      differences beyond noise
  cclmark history add run.jsonl                 keeps it in a database

A wrong name in --columns lists all fields.""",
    "environment": """\
CCLMARK_NCCL_LIBRARY, ...  file of a library; no other file is tried (--ccl-path
                           has priority)
CCLMARK_MPIRUN             the mpirun that starts ranks where MPI is measured
CCLMARK_LAUNCHER           none: this host alone, without the launcher's other
                           processes
CCLMARK_SHARED_DIR         directory through which processes on several hosts
                           connect
CCLMARK_CACHE_DIR          directory of compiled kernels
CCLMARK_HISTORY            file or URL of the history
CCLMARK_REFERENCES         files and directories of your own references
NO_COLOR                   not empty: no colours, on terminals neither

Variables of libraries (NCCL_*, HCCL_*, CUDA_VISIBLE_DEVICES, LD_LIBRARY_PATH,
...) reach the ranks unchanged; cclmark settings lists them with their values.
All variables of cclmark: docs/reference/environment.md.""",
    "exit-codes": """\
  0    measured, and no checked output is wrong; some cases may have been
       skipped with a reason; or planned, also where a network does not
       suffice or nothing can be said
  1    measured, but an output was wrong, or a threshold was missed (of a
       suite, --fail-if-slower or --fail-below); a check of doctor failed, or
       scan found something slow
  2    usage: an unknown option, an impossible value, a journal that exists
       already, a file that cannot be read or opened for writing; or a threshold
       that the figures cannot decide (--fail-below, --fail-if-slower)
  3    a device, runtime, library or disk space is missing on this machine, or
       every case was skipped; or what ran is not certain (--explain), or a
       trace is incomplete: the results are kept
  4    a rank died, failed or timed out, or a process of the run stopped
       responding; earlier results are kept
  130  interrupted by Ctrl-C, SIGTERM or SIGHUP (not under nohup), or the reader
       of a run's output closed it: earlier results are in the journal
  141  the reader closed the output of a command that does not measure, as in
       cclmark export ... | head: the code of programs that SIGPIPE ended""",
}


# The kernel's errors when a limit on files, processes, threads or memory is reached.
_SHORTAGES = (errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM)
_FIRST_WORD_S = 1.0
_MOST_OWNERS = 4  # commands named for an option that another one lacks


class _TableOfContents(SaysHelp, click.Group):
    """Lists the commands in the order of their table, and loads only the one that is called."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parses the arguments; ``help COMMAND`` is ``COMMAND --help``, as in git."""
        if args[:1] == ["help"]:
            names = [word for word in args if word != "help" and not word.startswith("-")]
            if names[:1] and names[0] in TOPICS:
                if not ctx.resilient_parsing:
                    say(TOPICS[names[0]])
                ctx.exit()
            args = [*names, "--help"]
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Returns the command, None for an unknown name."""
        if cmd_name not in self.commands and cmd_name in COMMANDS:
            self.add_command(load_command(cmd_name))
        return super().get_command(ctx, cmd_name)

    def screen(self, ctx: click.Context) -> str:
        """The list of commands is one screen."""
        return self.get_help(ctx)

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the groups of commands with a line for each command, and the topics."""
        formatter.write(f"Usage: cclmark COMMAND [OPTIONS]\n  {self.help}\n\n")
        rows = []
        for title, commands in GROUPS.items():
            others = [name for name in commands if name in COLLECTIVES][1:]
            shown = [name for name in commands if name not in (*others, *UNLISTED)]
            for place, name in enumerate(shown):
                summary = commands[name].summary
                if name in COLLECTIVES:
                    summary = f"Measure one operation; also {', '.join(others)}."
                rows.append((f"{'' if place else title:12}{name}", summary))
        formatter.write_dl(rows)
        formatter.write_dl(self.examples)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Finds the command; for an unknown one, suggests the most similar name."""
        name = FORMER.get(args[0], args[0])
        if name != args[0] and not ctx.resilient_parsing and _speaks():
            tell(f"{args[0]} is now called {name}")
        args = [name, *args[1:]]
        if name in COMMANDS or name.startswith("-"):
            return super().resolve_command(ctx, args)
        meant = _meant(name, [*COMMANDS, *TOPICS] if "--help" in args else [*COMMANDS])
        question = f": did you mean {meant}?" if meant else "."
        raise click.UsageError(f"No such command {name!r}{question}", ctx)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Completes the names of commands without loading them, and options."""
        from click.shell_completion import CompletionItem

        found = [
            CompletionItem(name, help=entry.summary)
            for name, entry in COMMANDS.items()
            if name.startswith(incomplete)
        ]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]

    def invoke(self, ctx: click.Context) -> object:
        """Runs the command. On a broken pipe click would exit with 1, which means wrong data.

        An option of other commands is reported with these, not with the most similar option.
        """
        try:
            return super().invoke(ctx)
        except click.NoSuchOption as error:
            if owners := commands_with(error.option_name):
                names = abridged([f"cclmark {one}" for one in owners], _MOST_OWNERS)
                text = f"No such option {error.option_name!r} here: it is an option of {names}"
                raise click.UsageError(text, error.ctx) from None
            raise
        except BrokenPipeError:
            raise UnreadError from None


def _meant(name: str, commands: list[str]) -> str:
    """Returns the command that ``name`` spells, also as the peers' programs do, or empty."""
    import difflib

    bare = {_bare(command): command for command in commands}
    close = difflib.get_close_matches(_bare(name), bare, n=1, cutoff=0.75)
    return bare[close[0]] if close else ""


def _bare(name: str) -> str:
    """Reduces ``all-reduce``, ``AllReduce``, ``all_reduce_perf`` and ``test_…`` to one spelling."""
    words = name.lower().replace("-", "_").split("_")
    return "".join(word for word in words if word not in ("perf", "test")).replace("2", "to")


def _say_version(ctx: click.Context, parameter: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        say(f"cclmark {VERSION}")
        ctx.exit()


@click.group(
    cls=_TableOfContents,
    help="Measure, verify and explain the communication between accelerators.",
    examples=[
        ("Start with", "cclmark all_reduce, and cclmark all_reduce -h for its options."),
        ("Topics", f"cclmark help and one of {', '.join(TOPICS)}."),
    ],
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_say_version,
    help="Show the version and exit.",
)
def app() -> None:
    """Holds the commands."""


def main() -> None:
    """Runs the command line; every failure ends in one message and its exit code."""
    prepare_streams()
    try:
        _run()
    except BrokenPipeError:
        # Standard output broke while an error was handled: only the exit code remains.
        os._exit(EXIT_UNREAD)
    except Exception as error:  # from Python, or from ZeroMQ, which has its own class
        if getattr(error, "errno", None) not in _SHORTAGES:
            raise
        tell(f"{error}: see the limits of this user or container (ulimit -a)")
        sys.exit(EXIT_MISSING)


def _speaks() -> bool:
    """Whether this process is the one that reports an error that all processes detect."""
    from cclmark.launch.placement import is_primary

    return is_primary(os.environ)


def _let_the_first_speak(exit_code: int) -> None:
    """Delays the exit so that the first process can print its message.

    An mpirun ends all processes as soon as one fails, possibly before the reporting process has
    printed the reason.
    """
    on_ending_signals(lambda number, frame: os._exit(exit_code))
    time.sleep(_FIRST_WORD_S)


def _check_arguments() -> None:
    """Raises UsageError for an argument that cannot be sent to a journal or a rank."""
    for text in sys.argv[1:]:
        try:
            text.encode()
        except UnicodeEncodeError:
            raise UsageError(f"the argument {text!a} is not UTF-8: use another name") from None


def _run() -> None:
    try:
        try:
            on_ending_signals(interrupt)
            _check_arguments()
            app(prog_name="cclmark", standalone_mode=False)
        finally:
            on_ending_signals(note)  # the exit code is final, and the message may be delayed
    except Followed as followed:
        sys.exit(followed.exit_code)
    except click.ClickException as error:
        if _speaks():
            said = io.StringIO()
            error.show(said)
            print_folded(said.getvalue().rstrip("\n"))
        else:
            _let_the_first_speak(error.exit_code)
        sys.exit(error.exit_code)
    except CclmarkError as error:
        # All processes detect an error of the command line, and one reports it.
        if isinstance(error, RankError) or _speaks():
            tell(str(error))
        else:
            _let_the_first_speak(error.exit_code)
        sys.exit(error.exit_code)
    except UnreadError:
        os._exit(EXIT_UNREAD)  # the remaining output has no reader either
    except (KeyboardInterrupt, click.Abort):
        if _speaks():
            tell("interrupted")
        sys.exit(EXIT_INTERRUPTED)
    finally:
        on_ending_signals(signal.SIG_IGN)  # also while the interpreter ends
