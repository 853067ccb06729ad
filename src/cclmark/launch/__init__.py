"""Starts ranks, supervises them until all have exited, and reports why a run ended.

Imports: analysis, base, explain, journal, rendezvous, trace, work.

Before a run, ``placement.py`` detects the launcher, ``meeting.py`` and ``coordinator.py`` connect
its processes, ``devices.py`` chooses devices. ``request.py`` has the request, the listener to its
events with the delivery of results to it (each exactly once), and its outcome. ``launching.py``
starts new ranks after a hang, runs rounds of variants and observes libraries afterwards.

An attempt (``attempt.py``) starts the ranks, and observes deadlines and exits of ranks and the
other processes until the ranks have finished or one has failed. ``rank_messages.py`` receives and
checks messages, collects the descriptions of devices and combines what ranks observed,
``diagnosis.py`` finds stalls of the first process itself.

``agent.py`` holds the ranks of this process, the coordinator the agents of all processes, so
supervision does not distinguish them; ``follower.py`` executes orders of the first process and
sends the status of its ranks every half second. ``ranks.py`` starts ranks, ``debugging.py`` those
under a debugger, and collects the stacks of unresponsive ones; under a launcher a rank is the child
of its process and inherits its way to the mpirun or srun. ``mpi_ranks.py`` starts ranks where MPI
is measured without a launcher, or needs new ranks below one: an mpirun of the first process starts
those of all processes.
Diagnosis: ``diagnosis.py`` (culprit first; ranks by phase and operations), ``ras.py`` (NCCL's).

Start with ``request.py`` and ``attempt.py``.
"""
