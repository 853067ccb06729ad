"""``cclmark serve`` as tests run it."""

import http.client
import re
import signal
from contextlib import closing

from patience import scaled


class Served:
    """A server that runs, and where."""

    def __init__(self, process):
        self.process = process
        self.told = process.stdout.readline().decode()
        found = re.search(r"at (http://(\S+):(\d+)/\S*) until Ctrl-C", self.told)
        assert found, self.told + process.communicate(timeout=scaled(30))[1].decode()
        self.address, self.host, self.port = found[1], found[2].strip("[]"), int(found[3])

    def get(self, path, **headers):
        """Status, headers and body, of the address that it was bound to."""
        return self.ask("GET", path, **headers)

    def ask(self, method, path, **headers):
        address = "127.0.0.1" if ":" not in self.host else "::1"
        with closing(
            http.client.HTTPConnection(address, self.port, timeout=scaled(30))
        ) as connection:
            connection.request(method, path, headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read().decode()

    def end(self, number=signal.SIGTERM):
        """Its exit code and what it said besides the address."""
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=scaled(30))
        return self.process.returncode, (out + err).decode().strip()
