"""``--memory``: what allocates the buffers, in the run, its journal, head and comparisons."""

import pytest

from cclmark.journal.method import unusual_method

TWO = ("-g", "2", "-b", "64", "-e", "1K", "-f", "16", "-n", "1", "-w", "0")


def memory_of(run):
    return {one.name: one.memory for one in run.journal.header.libraries}["nccl"]


@pytest.mark.parametrize(
    ("flags", "kind"),
    [
        *(
            ("--timing auto", "plain"),
            ("-G 2", "library"),
            ("--timing graph --memory plain", "plain"),
        ),
        *(("--memory vmm", "vmm"), ("-R 1", "library")),
    ],
)
def test_the_memory_of_buffers_is_in_journal_and_head(cclmark, fake_cuda, flags, kind):
    run = cclmark("all_reduce", *TWO, *flags.split(), env=fake_cuda.env())
    assert memory_of(run) == kind
    assert all(result.verification.wrong == 0 for result in run.journal.results)
    is_said = kind != "plain" or "--memory" in flags
    assert ("\n  buffers    " in run.out) == is_said


def test_a_version_without_an_allocator_has_plain_memory(cclmark, fake_cuda):
    run = cclmark("all_reduce", *TWO, "--timing", "graph", env=fake_cuda.env(old=True))
    assert memory_of(run) == "plain"
    assert unusual_method(run.journal.header, "nccl") == ["timed by graph"]
    assert all(result.verification.wrong == 0 for result in run.journal.results)


@pytest.mark.parametrize(
    ("flags", "old", "words"),
    [
        ("--memory library", True, "has no MemAlloc (NCCL has it since 2.19): use --memory plain"),
        ("-R 2 --memory plain", False, "a window needs memory of ncclMemAlloc"),
    ],
)
def test_memory_that_the_library_cannot_use_skips_the_cases(cclmark, fake_cuda, flags, old, words):
    run = cclmark("all_reduce", *TWO, *flags.split(), code=3, env=fake_cuda.env(old=old))
    assert {result.status for result in run.journal.results} == {"skipped"}
    assert words in run.journal.results[0].reason
    assert run.journal.results[0].reason in run.out


def test_kinds_of_memory_are_compared_and_exported_under_their_names(cclmark, fake_cuda):
    command, env = ("all_reduce", *TWO, "--timing", "graph"), fake_cuda.env()
    cclmark(*command, "--journal", "a.jsonl", env=env)
    cclmark(*command, "--memory", "plain", "--journal", "b.jsonl", env=env)
    compared = cclmark("compare", "a.jsonl", "b.jsonl")
    assert "memory of nccl's buffers: library before, plain after" in compared.out
    both = cclmark("compare", "a.jsonl,b.jsonl", "b.jsonl", code=2)
    assert "memory of nccl's buffers: library there, plain here" in both.err
    of_library = "  buffers    of the library"
    for name, words in (
        *(("markdown", of_library), ("table", of_library), ("csv", "memory library")),
        ("nccl-tests", "# buffers of the library"),
    ):
        assert words in cclmark("export", "a.jsonl", "--format", name).out
    assert "memory" not in cclmark("export", "b.jsonl", "--format", "csv").out
    resumed = cclmark(*command, "--resume", "b.jsonl", code=2, env=env)
    assert "--memory: plain in the journal, auto in this command" in resumed.err
