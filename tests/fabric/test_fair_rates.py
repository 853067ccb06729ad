import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cclmark_planning.simulate.fair_rates import end_times, fair_rates


def columns(*rows):
    width = max(map(len, rows))
    return np.array([[*row, *[-1] * (width - len(row))] for row in rows])


def rates_of(rows, capacity, counts=None, weights=None):
    counts = np.ones(len(rows)) if counts is None else np.array(counts, float)
    return fair_rates(columns(*rows), weights, counts, np.array(capacity, float))


def test_a_flow_over_two_links_leaves_the_rest_to_others():
    # Bertsekas and Gallager, figure 6.11, with one flow over all links and one on each.
    assert rates_of([[0, 1], [0], [1]], [1, 2]).tolist() == [0.5, 0.5, 1.5]
    assert rates_of([[0, 1], [0], [1]], [1, 2], counts=[1, 3, 1]).tolist() == [0.25, 0.25, 1.75]


def test_a_divided_flow_loads_each_way_with_its_share():
    weights = np.array([[0.5, 0.5], [1, 0]])
    assert rates_of([[0, 1], [0]], [3, 9], weights=weights).tolist() == [2, 2]


def test_rates_on_a_shared_link_are_in_proportion_to_priorities():
    links, counts = columns([0], [0], [0, 1]), np.array([2.0, 1.0, 1.0])
    rates = fair_rates(links, None, counts, np.array([12.0, 1.0]), np.array([1.0, 3.0, 1.0]))
    assert rates.tolist() == pytest.approx([2.2, 6.6, 1.0])


@st.composite
def networks(draw):
    """The capacities of links, and the links and the number of each flow."""
    links = draw(st.integers(2, 8))
    capacity = draw(st.lists(st.floats(0.1, 100), min_size=links, max_size=links))
    used = st.sets(st.integers(0, links - 1), min_size=1, max_size=4).map(sorted)
    flows = draw(st.lists(st.tuples(used, st.integers(1, 3)), min_size=1, max_size=30))
    rows, counts = zip(*flows, strict=True)
    return capacity, rows, np.array(counts, float)


def load_on(link, rows, weights):
    """The sum of the weights of the flows that use a link."""
    return sum(one for row, one in zip(rows, weights, strict=True) if link in row)


@given(networks())
def test_no_link_is_above_its_capacity_and_each_flow_has_a_bottleneck(network):
    capacity, rows, counts = network
    rates = rates_of(rows, capacity, counts)
    assert (rates > 0).all()
    loads = [load_on(link, rows, counts * rates) for link in range(len(capacity))]
    for load, most in zip(loads, capacity, strict=True):
        assert load <= most * (1 + 1e-6)
    for row, rate in zip(rows, rates, strict=True):
        # On a full link of the flow no flow is faster.
        assert any(
            loads[link] >= capacity[link] * (1 - 1e-6)
            and rate >= max(r for other, r in zip(rows, rates, strict=True) if link in other) - 1e-6
            for link in row
        )


@given(networks())
def test_equal_flows_end_when_the_most_loaded_link_is_done(network):
    capacity, rows, counts = network
    ends = end_times(columns(*rows), None, counts, 7.0, np.array(capacity), merge=0)
    busiest = max(load_on(link, rows, counts * 7.0) / most for link, most in enumerate(capacity))
    assert ends.max() == pytest.approx(busiest)


def test_rates_rise_when_others_end():
    # Two flows share a link of 2 bytes/s; the shorter ends after 1 s, the other has 2 bytes/s then.
    ends = end_times(columns([0], [0]), None, np.ones(2), np.array([1.0, 3.0]), np.array([2.0]))
    assert ends.tolist() == [1, 2]
