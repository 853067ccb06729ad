"""A real browser. Where it has to be there (CCLMARK_REQUIRE_BROWSER), its absence is a failure."""

import os
import shutil

import pytest

from patience import scaled

# Tests run as root in containers, and drawing through SwiftShader takes a quarter more time.
_ARGUMENTS = ["--no-sandbox", "--disable-gpu"]


@pytest.fixture(scope="session")
def browser():
    program = shutil.which("chromium") or shutil.which("google-chrome")
    missing = None if program else "there is no chromium"
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        missing = "playwright is not installed"
    if missing:
        if os.environ.get("CCLMARK_REQUIRE_BROWSER"):
            pytest.fail(missing)
        pytest.skip(missing)
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=program, args=_ARGUMENTS)
        yield found
        found.close()


class Seen:
    """An open page, and everything that happened on it that should not."""

    def __init__(self, page, place=None):
        """``place``: the file by whose address pages in files are shown."""
        self.page = page
        self.place = place
        self.said = []
        self.requests = []
        page.on("console", lambda message: self.said.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: self.said.append(f"error: {error}"))
        page.on("dialog", self._dialog)
        page.on("request", lambda request: self.requests.append(request.url))

    def _dialog(self, dialog):
        self.said.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def open(self, path):
        """Shows the page in the file ``path`` by the address of ``place``: Chromium keeps what it
        has compiled of a script that is within a page by the address of that page.
        """
        shutil.copyfile(path, self.place)
        self.page.goto(self.place.as_uri())
        self.page.wait_for_selector("html[data-ready=yes]")
        return self

    def unfold(self):
        """Opens all sections, and returns the number of charts in them."""
        unfold = self.page.get_by_role("button", name="Unfold all")
        if unfold.is_visible():
            unfold.click()
        return self.page.locator("figure[data-chart]").count()

    def hover(self, figure, element, x_share=0.5, y_share=0.5):
        """Returns the text that appears over a place in ``element``, a locator in ``figure``.

        The mouse moves until the text is there, as a hand does: a page that still scrolls ignores
        a single movement.
        """
        figure.scroll_into_view_if_needed()
        text = self.page.locator(".tip:not([hidden])")
        for attempt in range(int(scaled(40))):
            box = element.bounding_box()
            x, y = box["x"] + box["width"] * x_share, box["y"] + box["height"] * y_share
            self.page.mouse.move(x + attempt % 2, y)
            self.page.wait_for_timeout(250)
            if text.count():
                return text.text_content()
        raise AssertionError("no text appeared")


class Tabs:
    """New pages of one browser process."""

    def __init__(self, browser, address, place=None):
        """``address``: of a small page of the site whose pages are opened, so that they share its
        process. ``place``: of pages in files, see ``Seen``.
        """
        self.place = place
        self.context = browser.new_context(
            viewport={"width": 1280, "height": 900}, color_scheme="light"
        )
        self.context.set_default_timeout(scaled(30) * 1000)
        self._opener = self.context.new_page()
        self._opener.goto(address)

    def new(self):
        """Returns a page that finds nothing in the storage of its site. It is in a window of its
        own: a hidden tab draws once a second.
        """
        with self.context.expect_page() as opened:
            self._opener.evaluate("localStorage.clear(); void open('', '_blank', 'popup')")
        return Seen(opened.value, self.place)


def require_accessible(page):
    """Fails if axe finds a serious violation on ``page``; skips where axe is not installed."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    found = axe.Axe().run(page)
    assert len(found.response["passes"]) > 10
    serious = [
        f"{one['id']}: {one['help']} {[node['target'] for node in one['nodes']][:3]}"
        for one in found.response["violations"]
        if one["impact"] in ("serious", "critical")
    ]
    assert serious == []


@pytest.fixture(scope="session")
def tabs(browser, tmp_path_factory):
    """Of pages in files."""
    directory = tmp_path_factory.mktemp("opener")
    empty = directory / "empty.html"
    empty.write_text("<!doctype html><title>Empty</title>")
    made = Tabs(browser, empty.as_uri(), directory / "page.html")
    yield made
    made.context.close()


@pytest.fixture
def seen(tabs):
    """A new page."""
    made = tabs.new()
    yield made
    made.page.close()
