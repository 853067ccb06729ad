"""The history in Chromium: from the list to charts, with nothing fetched from elsewhere."""

import pytest

from browsing import Tabs, require_accessible
from cclmark.history.store import History
from places import RUNS


@pytest.fixture(scope="module")
def address(serve_all, tmp_path_factory):
    """Of a server with four runs, which no test changes."""
    pytest.importorskip("uvicorn")
    place = tmp_path_factory.mktemp("served") / "history.sqlite"
    history = History(str(place))
    for name in ("default-1", "default-2", "ctas8", "buff8"):
        history.add((RUNS / f"{name}.jsonl").read_bytes(), f"{name}.jsonl", ["<b>night</b>"])
    served = serve_all("--db", place)
    yield served.address
    assert served.end() == (130, "cclmark: interrupted")


@pytest.fixture(scope="module")
def tabs(browser, address):
    """Of pages of that server."""
    made = Tabs(browser, f"{address}nowhere")
    yield made
    made.context.close()


def choose(seen, address, *names):
    page = seen.page
    page.goto(address)
    for name in names:
        page.get_by_role("row").filter(has_text=f"{name}.jsonl").get_by_role("checkbox").check()
    return page


def test_from_the_list_to_charts_of_two_runs(seen, address):
    page = choose(seen, address, "default-1", "ctas8")
    page.get_by_role("button", name="Draw together").click()
    page.wait_for_selector("html[data-ready=yes]")
    assert "2 runs:" in page.locator(".subtitle").text_content()
    assert seen.unfold() > 3
    page.get_by_role("link", name="ctas8").click()
    page.wait_for_selector("html[data-ready=yes]")
    assert seen.unfold() > 3
    page.get_by_role("link", name="All runs").click()
    assert page.get_by_role("checkbox").count() == 4
    assert seen.said == []
    assert all(url.startswith(address) for url in seen.requests)
    assert len(seen.requests) == 4


def test_filters_work_without_a_script(browser, address):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(address)
    page.get_by_label("Label").select_option("<b>night</b>")
    page.get_by_label("Machine").fill("H200")
    page.get_by_label("Until (UTC)").fill("2026-11-20")
    page.get_by_role("button", name="Filter").click()
    assert page.get_by_text("No runs found.").is_visible()
    page.get_by_label("Until (UTC)").fill("")
    page.get_by_role("button", name="Filter").click()
    assert page.get_by_role("checkbox").count() == 4
    page.get_by_role("link", name="Trend of these runs").click()
    assert page.get_by_role("heading", name="Trend").is_visible()
    assert page.get_by_label("Machine").input_value() == "H200"
    context.close()


@pytest.fixture(scope="module")
def examined(browser):
    """A page into which axe gets, whatever its policy."""
    context = browser.new_context(bypass_csp=True)
    yield context.new_page()
    context.close()


@pytest.mark.parametrize("colours", ["light", "dark"])
@pytest.mark.parametrize("path", ["", "trend?all=1"])
def test_pages_are_accessible(examined, address, path, colours):
    examined.emulate_media(color_scheme=colours)
    examined.goto(address + path)
    require_accessible(examined)
