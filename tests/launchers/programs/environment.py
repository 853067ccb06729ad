"""Writes the environment of this process to a file of its own in the directory that is named."""

import json
import os
import socket
import sys
from pathlib import Path

file = Path(sys.argv[1]) / f"{socket.gethostname()}-{os.getpid()}.json"
file.write_text(json.dumps({**os.environ, "hostname": socket.gethostname()}))
