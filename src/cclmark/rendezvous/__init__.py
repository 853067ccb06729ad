"""Messages between the processes of a run, and the memory that they share.

Imports: base, explain, journal, work.

Sockets (ZeroMQ) are encrypted and authenticated by CURVE keys and a one-time token, which
``keys.py`` derives from the secret of the run, on loopback and between hosts. ``server.py`` belongs
to the first process, and limits connections without a message; ``client.py`` has the clients of
ranks and of other processes; ``interfaces.py`` finds addresses.

``messages.py`` lists all messages, which are decoded strictly and never unpickled. They have no
version: processes with another version of cclmark are refused when they connect.

``board.py`` is the status board in shared anonymous memory. Each rank records its phase and
deadline there before it goes on, and the engine counts operations as they are entered, so the state
of a rank that hangs or has died is known. Start with ``messages.py`` and ``board.py``.
"""
