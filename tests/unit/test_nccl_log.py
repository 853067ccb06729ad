"""NCCL's own lines about its choices."""

from cclmark.explain.nccl_log import operations_in

LINES = """\
node:1:1 [0] NCCL INFO AllReduce: 1024 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..7}
node:1:1 [0] NCCL INFO something else: 12 Bytes
node:1:1 [0] NCCL INFO AllReduce [Symmetric]: 8 Bytes -> Kernel AllReduce_AGxLL_R nchannels 3
node:1:1 [0] NCCL INFO AllGather [Copy Engine]: 4096 Bytes -> cudaMemcpyBatchAsync
node:1:1 [0] NCCL INFO 2048 Bytes -> Algo 0 proto 2 time 12.5
node:1:1 [0] NCCL INFO 2048 Bytes -> Algo 77 proto 2 time 12.5
"""


def test_the_lines_of_all_versions_are_read():
    ring, symmetric, copied, tree = operations_in(LINES)
    assert (ring.function, ring.kernel, ring.protocol, ring.channels) == (
        "AllReduce",
        "ring",
        "LL",
        8,
    )
    assert (symmetric.kernel, symmetric.algorithm, symmetric.channels) == (
        *("symmetric", "AllReduce_AGxLL_R"),
        3,
    )
    assert (copied.kernel, copied.algorithm) == ("copy engine", "cudaMemcpyBatchAsync")
    assert (tree.kernel, tree.protocol, tree.channels) == ("tree", "SIMPLE", 0)


def test_half_a_line_says_nothing():
    for length in range(len(LINES.splitlines()[0])):
        assert operations_in(LINES.splitlines()[0][:length]) == []
