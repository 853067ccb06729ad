"""The pages of ``cclmark serve`` without a socket: what is asked for, and what must be refused."""

import html
import re
import socket
import threading
import time
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from commands import wait_until
from goldens import require_outcomes
from places import RUNS, TESTS

pytest.importorskip("httpx")
pytest.importorskip("starlette")

from starlette.testclient import TestClient

from cclmark.document.reference_notes import no_references
from cclmark.history.store import History
from cclmark_serve.app import make_app
from cclmark_serve.guard import AccessRules
from examples import examples
from patience import scaled
from samples import edited, with_header

DEFAULTS = [f"default-{number}" for number in range(1, 9)]
FIRST = "fa3d6a0ec1c84c559bb0eb9291906219"
TUNED = "6a7924424d9d"
BOTH = f"run={FIRST}&run={TUNED}"
BASE = "http://127.0.0.1:8321"
TOKEN = 'a token: with ünusual, and; "quoted" signs'
ATTACKS = (
    "<img src=x onerror=alert(1)>",
    "</style><script>alert(2)</script>",
    '"><a href="javascript:alert(3)">x</a>',
    "../../etc/passwd?run=1&x=#y\u202e",
    "\x9b31m\x85\u202e\u2066\u200f\u061c",  # C1 control characters and marks of text direction
)
MARKS = {*"\x9b\x85\u202e\u2066\u200f\u061c"}


def content(name):
    return (RUNS / f"{name}.jsonl").read_bytes()


def client_of(history, access=None, said=None):
    said = [] if said is None else said
    access = access or AccessRules.on_loopback("127.0.0.1", 8321)
    app = make_app(history, no_references, access, said.append)
    # To compress a report takes longer than to render it: few tests are about that.
    plain_text = {"Accept-Encoding": "identity"}
    return TestClient(app, base_url=BASE, follow_redirects=False, headers=plain_text)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A history of nine runs: eight alike, and one with other settings."""
    place = str(tmp_path_factory.mktemp("history") / "history.sqlite")
    history = History(place)
    for name in DEFAULTS:
        history.add(content(name), f"/data/{name}.jsonl", ["night"])
    history.add(content("ctas8"), "/data/ctas8.jsonl", ["tuned"])
    return place


@pytest.fixture(scope="module")
def client(place):
    return client_of(History(place, read_only=True))


@pytest.fixture
def filled(tmp_path):
    def fill(*journals):
        history = History(str(tmp_path / "history.sqlite"))
        ids = [history.add(one, f"{number}.jsonl").run_id for number, one in enumerate(journals)]
        return client_of(history), ids

    return fill


@pytest.fixture
def guarded(place):
    return client_of(History(place, read_only=True), AccessRules(TOKEN, port=8321))


def text_of(answer):
    bare = re.sub(r"<style>.*?</style>|<[^>]*>", " ", answer.text, flags=re.DOTALL)
    return " ".join(html.unescape(bare).split())


def listed(client, query=""):
    answer = client.get(f"/{query}")
    assert answer.status_code == 200, text_of(answer)
    return re.findall(r'type="checkbox" name="run" value="([^"]+)"', answer.text)


def require_headers(answer):
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["X-Frame-Options"] == "DENY"
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    assert answer.headers["Cache-Control"] == "no-store"
    policy = answer.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; ")
    assert policy.endswith("; frame-ancestors 'none'")
    assert "'unsafe-eval'" not in policy


def test_what_each_address_answers(client, place):
    """The status with the title, the number of runs in a list, or the message."""
    words = {
        **{"FIRST": FIRST, "TUNED": TUNED, "NINES": "9" * 40},
        **{"X1000": "x" * 1000, "X60000": "x" * 60_000},
        "EVERY": "&".join(f"run={run}" for run in listed(client)),
    }

    def outcome(path):
        for word, text in words.items():
            path = path.replace(word, text)
        answer = client.get(path)
        require_headers(answer)
        if answer.status_code >= 400:
            assert place not in html.unescape(answer.text)
            assert len(answer.text) < 20_000
            said = text_of(answer).partition(" Trend ")[2].partition(" List of runs ")[0]
            return f"{answer.status_code} {said}"
        title = re.search("<title>(.*)</title>", answer.text)
        runs = re.findall('name="run" value="', answer.text)
        return f"{answer.status_code} {title[1] if title else ''} {len(runs) or ''}".rstrip()

    require_outcomes(TESTS / "serve" / "answers.txt", outcome)


def test_the_list_has_all_runs_the_newest_first(client):
    ids = listed(client)
    assert len(ids) == 9
    assert ids[-1] == FIRST
    page = client.get("/")
    assert "9 runs in " in text_of(page)
    # Each has its main figure and its share.
    assert page.text.count("all_reduce 188 GB/s") == 1
    assert page.text.count('<span class="share">73 % of link limit</span>') == 8


def test_the_list_has_how_a_run_ended(filled):
    def wrong(entry):
        if entry.get("index") == 0:
            entry["status"] = "wrong"

    lines = content("default-1").splitlines(keepends=True)
    client, _ = filled(edited(content("ctas8"), wrong), b"".join(lines[:9]), first_line("buff8"))
    told = text_of(client.get("/"))
    assert "1 not ok" in told
    assert "cut short" in told
    # A run that cannot be read is a line too.
    assert "<td></td><td></td>" in client.get("/").text


def first_line(name):
    return content(name).splitlines(keepends=True)[0]


def test_pages_of_the_list(filled):
    journals = [
        with_header(
            first_line("ctas8"),
            run_id=f"run{number:03}",
            started_at=f"2026-11-22T05:{number // 60:02}:{number % 60:02}+00:00",
        )
        for number in range(51)
    ]
    client, ids = filled(*journals)
    pages = [listed(client, query) for query in ("?machine=h200", "?page=2")]
    assert [len(page) for page in pages] == [50, 1]
    assert [run for page in pages for run in page] == ids[::-1]
    first = client.get("/?machine=h200").text
    assert 'href="/?machine=h200&amp;page=2"' in first
    assert "Newer" not in first
    last = client.get("/?page=2").text
    assert "51 to 51 of 51" in last
    assert "Older" not in last
    assert listed(client, "?page=9") == []
    assert 'href="/?page=2"' in client.get("/?page=9").text


def test_a_run_as_report_journal_and_exports(client):
    answer = client.get(f"/run?run={FIRST[:8]}")
    assert "/data/default-1.jsonl" in answer.text
    for name in ("journal", "export"):
        assert f'href="/{name}?run={FIRST}' in answer.text
    answer = client.get(f"/journal?run={FIRST}")
    assert answer.content == content("default-1")
    assert answer.headers["Content-Disposition"] == 'attachment; filename="fa3d6a0ec1c8.jsonl"'
    lines = client.get(f"/export?run={FIRST}&format=csv").text.splitlines()
    assert len(lines) == 27
    assert lines[0].startswith("run_id,")
    assert all(line.startswith(FIRST) for line in lines[1:])
    assert len(client.get(f"/export?run={FIRST}&format=json").json()["cases"]) == 26


def test_several_runs_together_and_compared(client):
    """Under the names of their files; the first is before, from the list the oldest."""
    assert "2 runs: default-1, ctas8" in client.get(f"/together?{BOTH}").text
    answer = client.get(f"/compare?{BOTH}")
    assert "NCCL_MAX_CTAS: not set before, 8 after" in answer.text
    around = re.search(r'href="(/compare\?[^"]+)">Swap the sides', answer.text)[1]
    answer = client.get(html.unescape(around))
    assert "<title>default-1 against ctas8</title>" in answer.text
    answer = client.get(f"/compare?run={TUNED}&run={FIRST}&by=time")
    assert "<title>ctas8 against default-1</title>" in answer.text


def night_of(number):
    """The journal of a night: from the night 6 on slower, with another driver."""

    def change(entry):
        if entry["type"] == "header":
            entry["run_id"] = f"night{number}"
            entry["started_at"] = f"2026-11-{number + 1:02}T02:00:00+00:00"
            if number >= 6:
                entry["machine"]["vendor_driver"] = "590.1"
        elif entry["type"] == "case" and entry["case"]["size_bytes"] >= 32 << 20:
            entry["summary"]["time_s"] *= 1.05 if number >= 6 else 1

    return edited(content(DEFAULTS[number % 8]), change)


def test_what_changed_comes_first_in_a_trend(filled):
    client, _ = filled(*map(night_of, range(10)))
    page = client.get("/trend")
    told = text_of(page)
    assert "4 of 26 series changed by 2 % or more: 4 slower, 0 faster" in told
    assert "driver: 580.159.04 before, 590.1 after" in told
    assert told.index("Between runs night5") < told.index("Series")
    assert 'href="/run?run=night6"' in page.text
    assert len(re.findall(r'<a href="/run[^>]+><circle class="slower"', page.text)) == 4
    comparison = re.search(r'href="(/compare\?[^"]+)"', page.text)[1]
    assert client.get(html.unescape(comparison)).status_code == 200
    assert "26 not judged" in text_of(client.get("/trend?until=2026-11-05"))


def test_the_fleet_has_the_newest_figure_of_each_machine(client, filled):
    text = client.get("/fleet").text
    assert text.count("<tbody>") == 1
    assert "all_reduce" in text
    assert re.search(r'<th scope="row"><a href="/\?machine=h200-host">h200-host</a></th>', text)
    assert re.search(r'<a href="/run\?run=\w+" title="[^"]+">\d+</a>', text)
    assert "▼</span>" not in text
    assert "No bandwidths of collectives found" in client.get("/fleet?machine=nowhere").text
    # A run of pairs does not hide an older figure.
    pairs = (RUNS.parent / "report" / "pairs.jsonl").read_bytes()
    other, (older, _) = filled(content("default-1"), pairs)
    link = f'<a href="/run?run={older}"'
    wait_until(lambda: link in other.get("/fleet").text, "the runs are read")


def test_nothing_can_be_changed(client):
    for path in ("/", "/run", "/nowhere"):
        for method in ("POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"):
            answer = client.request(method, path)
            assert answer.status_code == 405
            assert answer.headers["Allow"] == "GET, HEAD"
    assert client.head("/").status_code == 200


@settings(deadline=None, max_examples=examples(60), suppress_health_check=list(HealthCheck))
@given(
    path=st.sampled_from(["/", "/run", "/journal", "/export", "/together", "/compare", "/trend"]),
    pairs=st.lists(
        st.tuples(
            st.sampled_from(["run", "page", "since", "until", "machine", "label", "format"]),
            st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
        ),
        max_size=4,
    ),
)
def test_whatever_is_asked_is_answered(client, path, pairs):
    query = "&".join(f"{name}={quote(text, safe='')}" for name, text in pairs)
    assert client.get(f"{path}?{query}").status_code in (200, 400, 404)


def test_a_history_that_goes_away(tmp_path):
    file = tmp_path / "history.sqlite"
    History(str(file)).add(content("ctas8"), "ctas8.jsonl")
    said = []
    client = client_of(History(str(file), read_only=True), said=said)
    assert client.get("/healthz").text == "ok\n"
    file.unlink()
    answer = client.get("/")
    assert answer.status_code == 503
    assert "the history cannot be read" in text_of(answer)
    assert str(tmp_path) not in text_of(answer)
    [line] = said
    assert f"/ failed: there is no history at {file}" in line
    assert client.get("/healthz").status_code == 503
    assert str(tmp_path) not in client.get("/healthz").text


def test_a_fault_of_ours_shows_nothing_of_us(place, monkeypatch):
    history = History(place, read_only=True)
    monkeypatch.setattr(history, "runs", lambda *_: 1 // 0)
    said = []
    answer = client_of(history, said=said).get("/")
    assert answer.status_code == 500
    assert "ZeroDivision" not in answer.text
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    [line] = said
    assert re.search(r"/ failed: ZeroDivisionError: .*test_serve\.py:\d+", line)


def test_a_report_is_held_to_its_own_policy(client):
    for path in (f"/run?run={FIRST}", f"/compare?run={FIRST}&run={TUNED}"):
        answer = client.get(path)
        own = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', answer.text)
        policy = answer.headers["Content-Security-Policy"]
        assert policy == f"{html.unescape(own[1])}; frame-ancestors 'none'"
        assert policy.count("'sha256-") == 2
    # Other pages run nothing.
    page = client.get("/")
    policy = page.headers["Content-Security-Policy"]
    assert "script" not in policy
    assert "unsafe" not in policy
    assert "<script" not in page.text


def test_a_report_is_compressed(client):
    address = f"/run?run={FIRST}"
    small = client.get(address, headers={"Accept-Encoding": "gzip, br"})
    whole = client.get(address, headers={"Accept-Encoding": "identity"})
    assert small.headers["content-encoding"] == "gzip"
    assert "content-encoding" not in whole.headers
    assert small.headers["vary"] == "Accept-Encoding"
    assert small.content == whole.content
    sizes = [int(one.headers["content-length"]) for one in (small, whole)]
    assert sizes[0] < 0.4 * sizes[1]
    name = "content-security-policy"
    assert small.headers[name] == whole.headers[name]


def test_only_names_of_this_machine_are_answered(client):
    for host in ("127.0.0.1:8321", "localhost:9000", "LOCALHOST", "[::1]:8321", "127.0.0.1"):
        assert client.get("/", headers={"Host": host}).status_code == 200
    evil = ("evil.example:8321", "localhost.evil.example", "127.0.0.1.evil.example:8321", "")
    for host in evil:
        answer = client.get("/", headers={"Host": host})
        assert answer.status_code == 403
        assert FIRST[:12] not in answer.text
        assert answer.headers["X-Frame-Options"] == "DENY"


def test_without_the_token_nothing_is_told(guarded):
    for path in ("/", "/trend", f"/run?run={FIRST}", "/nowhere", "/?token=wrong"):
        answer = guarded.get(path)
        assert answer.status_code == 401
        assert FIRST[:12] not in answer.text
    assert guarded.get("/healthz").text == "ok\n"
    answer = guarded.get("/", headers={"Accept-Encoding": "gzip"})
    assert answer.status_code == 401
    assert "content-encoding" not in answer.headers
    for cookie in ("cclmark-8321=", "cclmark-8321=x", "=", ";;;", 'cclmark-8321="', "a=\x01"):
        assert guarded.get("/", headers={"Cookie": cookie}).status_code == 401


def test_the_address_with_it_sets_a_cookie_and_goes_on_without_it(guarded):
    answer = guarded.get(f"/?label=tuned&token={quote(TOKEN)}")
    assert answer.status_code == 303
    assert answer.headers["Location"] == "/?label=tuned"
    cookie = answer.headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert TOKEN not in cookie
    assert listed(guarded, "?label=tuned") == [
        run for run in listed(guarded) if run.startswith(TUNED)
    ]


def test_no_other_host_is_redirected_to(guarded):
    for path in ("//evil.example/", "/%5Cevil.example", "/%2F/evil.example"):
        url = f"{BASE}{path}?token={quote(TOKEN)}"
        location = guarded.get(url).headers["Location"]
        assert not location.startswith(("//", "/\\", "http"))


def test_programs_bring_it_in_a_header(place):
    token = "0123456789abcdef"
    client = client_of(History(place, read_only=True), AccessRules(token, port=8321))
    assert client.get("/", headers={"Authorization": f"Bearer {token}"}).status_code == 200
    for said in (f"Bearer {token}0", f"Basic {token}", "Bearer", token):
        assert client.get("/", headers={"Authorization": said}).status_code == 401


def test_names_with_markup_are_text(tmp_path):
    history = History(str(tmp_path / "history.sqlite"))
    ids = []
    for number, attack in enumerate(ATTACKS):

        def spoil(entry, number=number, attack=attack):
            if entry["type"] == "header":
                entry["run_id"] = f"{attack}{number}"
                entry["machine"]["hostname"] = attack
                entry["command"] = entry["notices"] = [attack]
                for device in entry["devices"]:
                    device["name"] = attack
                for library in entry["libraries"]:
                    library["name"] = library["version"] = attack
            if entry["type"] == "case":
                entry["case"]["operation"] = entry["case"]["ccl"] = attack

        added = history.add(edited(content("ctas8"), spoil), f"{attack}.jsonl", [attack])
        ids.append(added.run_id)
    client = client_of(history)
    # As a browser gives them back.
    shown = [html.unescape(run) for run in listed(client)]
    assert shown == ids[::-1]
    query = "&".join(f"run={quote(run, safe='')}" for run in ids)
    paths = ["/", "/trend?all=1", f"/together?{query}", f"/compare?{query}"]
    paths += [f"/?{name}={quote(one)}" for name in ("label", "machine") for one in ATTACKS[:3]]
    for run in ids:
        name = quote(run, safe="")
        paths += [f"/run?run={name}", f"/export?run={name}&format=json"]
    for path in paths:
        answer = client.get(path)
        assert answer.status_code in (200, 400), (path, text_of(answer))
        assert not MARKS & set(answer.text), path
        if "export" in path:
            continue
        for attack in ATTACKS[:3]:
            assert attack not in answer.text
        assert not re.search(r"href=\"?javascript:", answer.text)
    for run in ids:
        answer = client.get(f"/journal?run={quote(run, safe='')}")
        assert answer.status_code == 200
        assert re.fullmatch(
            r'attachment; filename="[\w.-]+"', answer.headers["Content-Disposition"]
        )


@pytest.fixture
def port(monkeypatch):
    """A server that gives each request a quarter of a second to arrive."""
    uvicorn = pytest.importorskip("uvicorn")
    from cclmark_serve import guard as deadline
    from cclmark_serve import run as serving

    monkeypatch.setattr(deadline, "REQUEST_S", 0.25)

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"ok"})

    config = serving.config_of(app)  # of cclmark serve
    config.timeout_keep_alive, config.timeout_graceful_shutdown = 60, 1
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        server.should_exit = True
        thread.join(scaled(30))


def was_closed(connection, piece, timeout_s=30.0):
    """Whether the server ended it while ``piece`` went out again and again."""
    deadline_s = time.monotonic() + scaled(timeout_s)
    connection.settimeout(0.05)
    while time.monotonic() < deadline_s:
        try:
            if piece:
                connection.sendall(piece)
            if not connection.recv(1000):
                return True
        except TimeoutError:
            continue
        except OSError:
            return True
    return False


@pytest.mark.parametrize(
    ("begin", "piece"),
    [
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nX: ", b"x"),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n", b"x"),
    ],
    ids=["headers", "body"],
)
def test_a_request_has_to_arrive_in_time(port, begin, piece):
    with socket.create_connection(("127.0.0.1", port), timeout=scaled(5)) as connection:
        connection.sendall(begin)
        assert was_closed(connection, piece)
