"""``cclmark plugin``: the path of the NCCL plug-in, or the contents of its logs.

``command.py`` has the options. ``run.py`` prints operations in logs, read by
``cclmark.explain.calls``, and their differences between ranks. The plug-in itself is in
engine/plugin.
"""
