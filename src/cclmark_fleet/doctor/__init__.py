"""What costs communication on a host: ``cclmark doctor``.

Nothing is measured unless asked for: checks (``cclmark_fleet.hosts``) judge what hosts say of
themselves. ``request.py`` examines this host, the hosts of a launcher, or recorded ones;
``figures.py`` compares hosts; ``document.py`` composes everything that a run says;
``line_formats.py`` writes JUnit and Prometheus. The kind has no runner.

Rooms imported: none; also the list of kinds. Start with ``plan.py``.
"""
