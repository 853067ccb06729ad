"""Max-min fair rates of flows that share links, and when the flows end.

No flow can become faster without a slower one becoming slower: each has a link that is full and on
which no flow is faster (Bertsekas and Gallager, Data Networks, section 6.5.2).
"""

from __future__ import annotations

from typing import Any

import numpy as np

_EQUAL = 1e-9  # relative, of shares of links
#: Flows whose ends are closer than this share of the time since the beginning end together.
MERGED = 0.01
_NO_FLOWS = np.inf


def fair_rates(
    links: Any, weights: Any, counts: Any, capacity_bps: Any, priorities: Any = 1.0
) -> Any:
    """The rate of each flow, in bytes/s.

    ``links``: [flows, columns], -1 for none; ``weights``: the share of the flow on each, None for
    all; ``counts``: how many equal flows a row is; ``priorities``: rates on a shared link are in
    proportion to them. Progressive filling; all links that fill before those with which they share
    flows fill at once.
    """
    # A flow of priority p is p flows of priority 1.
    scale = np.broadcast_to(np.asarray(priorities, float), counts.shape)
    counts = counts * scale
    rates = np.zeros(len(links))
    left = np.asarray(capacity_bps, float).copy()
    rows = np.arange(len(links))
    size = len(left)
    while len(rows):
        used = links >= 0
        flat = links[used]
        load = np.broadcast_to(counts[:, None], links.shape)[used]
        if weights is not None:
            load = load * weights[used]
        demand = np.bincount(flat, load, minlength=size)
        # The last place is that of column -1.
        shares = np.full(size + 1, _NO_FLOWS)
        np.divide(left, demand, out=shares[:-1], where=demand > 0)
        lowest = shares[links].min(axis=1)
        by_link = np.full(size, _NO_FLOWS)
        np.minimum.at(by_link, flat, np.broadcast_to(lowest[:, None], links.shape)[used])
        is_full = np.zeros(size + 1, bool)
        is_full[:-1] = (demand > 0) & (by_link >= shares[:-1] * (1 - _EQUAL))
        is_done = is_full[links].any(axis=1)
        rates[rows[is_done]] = lowest[is_done]
        taken = np.broadcast_to((counts * lowest * is_done)[:, None], links.shape)[used]
        if weights is not None:
            taken = taken * weights[used]
        left = np.maximum(0.0, left - np.bincount(flat, taken, minlength=size))
        kept = ~is_done
        rows, links, counts = rows[kept], links[kept], counts[kept]
        weights = None if weights is None else weights[kept]
    return rates * scale


def end_times(
    links: Any,
    weights: Any,
    counts: Any,
    sizes_bytes: Any,
    capacity_bps: Any,
    merge: float = MERGED,
) -> Any:
    """When each flow ends if all begin at once, in seconds; rates change whenever one ends.

    ``merge``: flows whose ends are closer than this share of the time since the beginning keep
    their links until the last of them ends.
    """
    ends = np.zeros(len(links))
    left = np.broadcast_to(np.asarray(sizes_bytes, float), ends.shape).copy()
    rows = np.flatnonzero(left > 0)
    now_s = 0.0
    while len(rows):
        kept_weights = None if weights is None else weights[rows]
        rates = fair_rates(links[rows], kept_weights, counts[rows], capacity_bps)
        durations = left[rows] / rates
        step_s = max(float(durations.min()), min(float(durations.max()), merge * now_s))
        is_done = durations <= step_s * (1 + _EQUAL)
        ends[rows[is_done]] = now_s + durations[is_done]
        left[rows] -= rates * step_s
        rows = rows[~is_done]
        now_s += step_s
    return ends
