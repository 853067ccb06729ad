"""The checks of ``cclmark torch check``: the operations that a training program calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import msgspec

from cclmark.work.items import OfBackend, names_selected

CHECK = "check"

CHECKS: dict[str, str] = {
    "all_reduce_sum": "all_reduce, sum",
    "all_reduce_min": "all_reduce, min",
    "all_reduce_max": "all_reduce, max",
    "all_reduce_prod": "all_reduce, product",
    "all_reduce_avg": "all_reduce, average",
    "all_reduce_band": "all_reduce, bitwise and",
    "all_reduce_bor": "all_reduce, bitwise or",
    "all_reduce_bxor": "all_reduce, bitwise exclusive or",
    "all_reduce_premul_sum": "all_reduce, sum of inputs times a factor",
    "all_reduce_float64": "all_reduce of float64",
    "all_reduce_float16": "all_reduce of float16",
    "all_reduce_bfloat16": "all_reduce of bfloat16",
    "all_reduce_float8": "all_reduce of float8_e4m3fn",
    "all_reduce_complex64": "all_reduce of complex64",
    "all_reduce_int8": "all_reduce of int8",
    "all_reduce_uint8": "all_reduce of uint8",
    "all_reduce_int32": "all_reduce of int32",
    "all_reduce_int64": "all_reduce of int64",
    "all_reduce_bool": "all_reduce of bool, max",
    "all_reduce_large": "all_reduce of 64 MiB",
    "all_reduce_scalar": "all_reduce of a tensor without dimensions",
    "all_reduce_empty": "all_reduce of no elements",
    "all_reduce_strided": "all_reduce of a tensor that is not contiguous",
    "all_reduce_offset": "all_reduce of a slice at an odd offset; its neighbours are unchanged",
    "all_reduce_async": "five asynchronous all_reduces, waited for in reverse order",
    "sub_group": "all_reduce in a group of every second rank",
    "sub_groups_at_once": "all_reduce in two halves at the same time",
    "nested_groups": "a group within a group, then the world again",
    "broadcast": "broadcast from every rank",
    "broadcast_async": "simultaneous broadcasts from all ranks",
    "broadcast_objects": "broadcast of Python objects",
    "reduce": "reduce to every rank",
    "all_gather": "all_gather into a list",
    "all_gather_uneven": "all_gather of tensors of different sizes",
    "all_gather_into_tensor": "all_gather into one tensor",
    "all_gather_objects": "all_gather of Python objects",
    "gather": "gather to every rank",
    "scatter": "scatter from every rank",
    "reduce_scatter": "reduce_scatter from a list",
    "reduce_scatter_uneven": "reduce_scatter of tensors of different sizes",
    "reduce_scatter_tensor": "reduce_scatter from one tensor",
    "all_to_all": "all_to_all of lists",
    "all_to_all_single": "all_to_all of one tensor",
    "all_to_all_uneven": "all_to_all of one tensor in parts of different sizes",
    "send_recv": "send and receive around a ring",
    "send_recv_tags": "messages with two tags, received in reverse order",
    "isend_irecv": "asynchronous messages in both directions around a ring",
    "batch_isend_irecv": "every pair both ways in one batch",
    "recv_any_source": "receive from any source",
    "barrier": "barrier: no rank leaves before the last one enters",
    "monitored_barrier": "barrier that reports missing ranks",
    "sequence": "forty operations of four kinds without a wait in between",
}
#: Only with a seed.
RANDOM_CHECKS: dict[str, str] = {
    "random_min": "all_reduce, min, of random values",
    "random_max": "all_reduce, max, of random values",
    "random_sum": "all_reduce, sum, of random values",
    "random_broadcast": "broadcast of random values from rank 0",
}
ALL_CHECKS = {**CHECKS, **RANDOM_CHECKS}


class Check(msgspec.Struct, OfBackend, frozen=True):
    """One check of one backend. ``name``: a key of ALL_CHECKS."""

    work: ClassVar[str] = "torch check"
    kind: ClassVar[str] = CHECK
    size_bytes: ClassVar[int] = 0
    ranks: ClassVar[int] = 0

    name: str
    backend: str

    def series(self) -> Check:
        """The check itself, because checks form no curve over sizes."""
        return self

    def describe(self) -> str:
        """The check in words, for messages."""
        return f"{self.name} with {self.backend}"


def checks_called(text: str) -> list[str]:
    """The checks that names, or parts of them, select. Raises UsageError."""
    return names_selected(text, ALL_CHECKS, "check")


def chosen_checks(only: Sequence[str], backend: str, *, random: bool = False) -> list[Check]:
    """These checks of a backend, all without names: those of random values if ``random``."""
    return [Check(name, backend) for name in only or (ALL_CHECKS if random else CHECKS)]
