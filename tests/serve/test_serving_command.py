import signal
import socket
import time
from pathlib import Path

import pytest

from cclmark.history.store import History
from patience import scaled
from places import RUNS
from transcripts import require_transcript, stored_commands

FIRST = "fa3d6a0ec1c84c559bb0eb9291906219"


@pytest.fixture
def place(tmp_path):
    """A history with a run."""
    place = tmp_path / "history.sqlite"
    History(str(place)).add((RUNS / "default-1.jsonl").read_bytes(), "default-1")
    return place


def test_it_serves_until_a_signal_and_writes_nothing(serve, place):
    before = place.read_bytes()
    served = serve("--db", place)
    assert served.host == "127.0.0.1"
    status, _, body = served.get("/")
    assert status == 200
    assert FIRST[:12] in body
    assert served.get(f"/run?run={FIRST}")[0] == 200
    assert served.get("/trend")[0] == 200
    assert served.ask("HEAD", "/")[2] == ""
    assert served.ask("POST", "/")[0] == 405
    assert served.end(signal.SIGTERM) == (130, "cclmark: interrupted")
    assert place.read_bytes() == before
    assert [path.name for path in place.parent.glob("history*")] == [place.name]


def test_what_is_under_way_is_answered_before_the_end(serve, place):
    served = serve("--db", place)
    with socket.create_connection(("127.0.0.1", served.port), timeout=scaled(30)) as other:
        threads = Path(f"/proc/{served.process.pid}/task")
        before = len(list(threads.iterdir()))
        other.sendall(f"GET /run?run={FIRST} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        deadline_s = time.monotonic() + scaled(30)
        while len(list(threads.iterdir())) == before and time.monotonic() < deadline_s:
            time.sleep(0.005)  # the request has not come in yet
        served.process.terminate()
        answer = b"".join(iter(lambda: other.recv(1 << 20), b""))
    assert answer.startswith(b"HTTP/1.1 200")
    assert answer.rstrip().endswith(b"</html>")
    assert served.end()[0] == 130


def test_what_cannot_be_served(cclmark, place, tmp_path):
    """A history, an address, without a package, and with tokens that are none."""
    text = "no database, but a text that is long enough to be read as one. "
    (tmp_path / "notes.txt").write_text(text * 20)
    (tmp_path / "without").mkdir()  # Python also searches the directory in which it starts
    lacking = tmp_path / "without" / "uvicorn.py"
    lacking.write_text("raise ModuleNotFoundError('no', name='uvicorn')")
    for name, mode, content in (("seen", 0o640, b"0123456789abcdef"), ("odd", 0o600, b"\xff" * 20)):
        (tmp_path / name).write_bytes(content)
        (tmp_path / name).chmod(mode)
    require_transcript("serve-refused", stored_commands("serve-refused"), cclmark, tmp_path)
    assert not (tmp_path / "none.sqlite").exists()
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        told = cclmark("serve", "--db", place, "--port", port, code=2)
    assert f"port {port} of 127.0.0.1 is in use: choose another with --port" in told.err


def test_beyond_this_machine_a_token_is_made(serve, place):
    served = serve("--db", place, "--host", "0.0.0.0")
    assert served.host == socket.gethostname()
    token = served.address.partition("?token=")[2]
    assert len(token) > 30
    assert served.get("/")[0] == 401
    status, headers, _ = served.get(f"/?token={token}")
    assert (status, headers["Location"]) == (303, "/")
    cookie = headers["Set-Cookie"].partition(";")[0]
    assert cookie.startswith(f"cclmark-{served.port}=")
    assert served.get("/", Cookie=cookie, Host="a.name")[0] == 200
    assert served.get("/", Cookie=f"{cookie}0")[0] == 401


def test_a_token_of_a_file_is_not_printed_and_requests_are_told(serve, place, tmp_path):
    file = tmp_path / "token"
    file.write_text("0123456789abcdef\n")
    file.chmod(0o600)
    served = serve("--db", place, "--host", "0.0.0.0", "--token", file, "--verbose")
    assert "0123456" not in served.told
    assert "token=" not in served.told
    assert served.get("/")[0] == 401
    assert served.get("/", Authorization="Bearer 0123456789abcdef")[0] == 200
    assert Path(f"/proc/{served.process.pid}/cmdline").read_bytes().find(b"0123456") < 0
    served.get("/?token=0123456789abcdef")
    served.get("/no%1b%5b31mwhere")
    code, said = served.end()
    assert code == 130
    assert "cclmark: GET / 303 in " in said
    assert "cclmark: GET /no\\x1b[31mwhere 401 in " in said
    assert "0123456789abcdef" not in said
