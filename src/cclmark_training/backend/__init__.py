"""``cclmark torch``: the group of commands about a backend of torch.distributed.

``command.py`` connects the commands of two rooms, ``check`` (``torch check``) and ``objects``
(``torch objects``). Neither imports torch before ranks run.
"""
