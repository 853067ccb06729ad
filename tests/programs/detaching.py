"""Starts a command in a process that leaves this one, and ends: ``detaching.py SECONDS COMMAND``.

The process begins after some seconds, in a new session, as launchers of jobs start them.
"""

import os
import sys
import time

if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for number in (0, 1, 2):
            os.dup2(os.open(os.devnull, os.O_RDWR), number)
        time.sleep(float(sys.argv[1]))
        os.execvp(sys.argv[2], sys.argv[2:])
    os._exit(0)
os.wait()
