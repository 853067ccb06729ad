"""The Prometheus gauges of transfers."""

from __future__ import annotations

from cclmark.document.openmetrics import Metric, Series, labels_of
from cclmark.document.kind import RunLabels
from cclmark.report.kinds.transfer_columns import kernel_of
from cclmark.results.item_results import TransferResult

TRANSFER_METRICS = (
    Metric("cclmark_transfer_time_seconds", "seconds", "Median time of a copy, or latency."),
    Metric("cclmark_transfer_bytes_per_second", "bytes_per_second", "Median bandwidth of a flow."),
    Metric("cclmark_transfer_ok", "", "1 for a transfer that was measured and not wrong."),
    Metric("cclmark_transfer_wrong_elements", "elements", "Wrong elements of 4 bytes."),
)


def measure_transfer(series: Series, result: TransferResult, run: RunLabels) -> None:
    """Sets the gauges of one transfer."""
    transfer, summary = result.transfer, result.summary
    common = [
        ("measure", transfer.measure),
        ("scope", transfer.scope),
        ("direction", transfer.direction),
        ("engine", transfer.engine),
        ("kernel", kernel_of(transfer)),
        ("method", transfer.method),
        ("size_bytes", str(transfer.size_bytes)),
        ("offset_bytes", str(transfer.offset_bytes)),
        ("blocks", str(transfer.blocks or "")),
        ("threads", str(transfer.threads or "")),
        ("peer_access", str(int(transfer.peer_access))),
        ("host_memory", transfer.host_memory),
        ("to_host", str(int(transfer.to_host))),
        ("numa", transfer.numa),
    ]
    flows = [
        [("from", run.devices[start]), ("to", run.devices[end])] for start, end in transfer.flows
    ]
    # A transfer with several simultaneous flows has the labels of its first flow.
    whole = labels_of([*common, *flows[0], ("flows", str(len(flows))), *run.where])
    if result.status == "skipped":
        return
    by_flow = [
        labels_of([*common, *flow, ("flows", str(len(flows))), *run.where]) for flow in flows
    ]
    for labels in (whole, *by_flow):
        series.begin(labels)
    series.worst("cclmark_transfer_ok", whole, float(result.status == "ok"), min)
    if result.verification is not None:
        series.worst("cclmark_transfer_wrong_elements", whole, result.verification.wrong, max)
    if summary is None:
        return
    series.set("cclmark_transfer_time_seconds", whole, summary.time_s)
    for labels, rate in zip(by_flow, summary.flow_bytes_per_s, strict=False):
        series.set("cclmark_transfer_bytes_per_second", labels, rate)
