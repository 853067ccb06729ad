"""Items of ``cclmark predict``: a collective on a number of nodes, measured or not."""

from __future__ import annotations

import msgspec

from cclmark.work.counts import AtLeastOne, Count, NotNegative
from cclmark.work.items import OfFormulas
from cclmark.work.operations import OPERATIONS
from cclmark.work.sizes import format_size
from cclmark_planning.scale.algorithms import Shape

PREDICT = "predict"


class Prediction(msgspec.Struct, OfFormulas, frozen=True, omit_defaults=True):
    """A collective whose time is sought. ``size_bytes``: see work.operations.

    ``device``: its name, empty if unknown. ``algorithm``: of all runs, empty if the library chose.
    ``network_bps``: the line rate of a node to others in bytes/s, 0 if unknown. ``is_measured``:
    whether a run had that many nodes; it is then predicted from runs on fewer.
    """

    operation: str
    ccl: str
    nodes: AtLeastOne
    per_node: AtLeastOne
    size_bytes: Count
    version: str = ""
    device: str = ""
    dtype: str = ""
    placement: str = ""
    algorithm: str = ""
    network_bps: NotNegative = 0.0
    is_measured: bool = False

    @property
    def kind(self) -> str:
        """The kind of work, see work.items."""
        return PREDICT

    @property
    def work(self) -> str:
        """The operation, or the command that performs the work."""
        return self.operation

    @property
    def library(self) -> str:
        """The library of the runs."""
        return self.ccl

    @property
    def shape(self) -> Shape:
        """Nodes and ranks of a node."""
        return Shape(self.nodes, self.per_node)

    @property
    def ranks(self) -> int:
        """The number of ranks."""
        return self.nodes * self.per_node

    @property
    def bus_factor(self) -> float:
        """Bus bandwidth over algorithm bandwidth."""
        return OPERATIONS[self.operation].bus_factor(self.ranks)

    def describe(self) -> str:
        """The item in words, for messages."""
        return f"{self.operation} of {format_size(self.size_bytes)} on {self.nodes:,} nodes"

    def series(self) -> Prediction:
        """The key that the numbers of nodes and the sizes of an operation share."""
        return msgspec.structs.replace(self, nodes=1, size_bytes=0, is_measured=False)
