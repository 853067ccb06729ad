"""The way through the ACL runtime and HCCL, on fakes: also in ``scenarios/ascend.txt``."""

from vendors import HCCL

TWO = ("--devices", "acl:0,1", "-b", "64", "-e", "64", "-n", "2", "-w", "1")


def test_the_check_of_the_host_names_the_values_of_16_bit_integers(cclmark):
    fault = ("--inject", "corrupt:rank=1,index=5")
    run = cclmark("all_gather", *TWO, "-d", "int16,uint16", *fault, code=1, env=HCCL.env())
    found = {it.case.dtype: it.verification.findings[0] for it in run.journal.results}
    assert 0 <= int(found["uint16"].expected) < 1 << 16
    assert -(1 << 15) <= int(found["int16"].expected) < 1 << 15


def test_steps_of_an_operation_are_those_of_the_documents(cclmark, tmp_path):
    trace = tmp_path / "t.pftrace"
    run = cclmark(
        *("trace", "broadcast", "--devices", "acl:0-2", "-b", "768", "-n", "2", "-w", "0"),
        *("--placement", "in-place", "--steps", "-O", trace),
        env=HCCL.env(),
    )
    assert "derived from the algorithm in the library's documents, which may not have" in run.out
    lines = (tmp_path / "t.steps.csv").read_text().splitlines()
    # A copy in, 2 parts to the others, each part to 2 others, and 2 copies out.
    assert len(lines) == 1 + 1 + 2 + 6 + 2
    assert all(line.endswith(",documented") for line in lines[1:])
