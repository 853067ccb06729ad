"""The introduction of a run: the surroundings that the listener receives before any result."""

from __future__ import annotations

import threading
import time

import msgspec

from cclmark.launch.agent import describe_devices
from cclmark.launch.coordinator import Coordinator
from cclmark.launch.rank_layout import RankLayout
from cclmark.launch.rank_messages import RankMessages
from cclmark.launch.request import Request
from cclmark.launch.result_delivery import ResultDelivery
from cclmark.launch.run_surroundings import check_no_device_twice, devices_of, surroundings_of
from cclmark.rendezvous.messages import Describe
from cclmark.results.schema import DeviceDescription

_POLL_S = 0.02
_DESCRIPTION_S = 5.0


class Introduction:
    """Collects the descriptions of devices and reports the surroundings once."""

    def __init__(
        self,
        request: Request,
        coordinator: Coordinator,
        layout: RankLayout,
        messages: RankMessages,
        delivery: ResultDelivery,
    ) -> None:
        self._request = request
        self._coordinator = coordinator
        self._layout = layout
        self._messages = messages
        self._delivery = delivery
        self._requested_s: float | None = None

    def check_devices(self) -> None:
        """Raises MissingError if two ranks use one accelerator, until the run is introduced."""
        if not self._delivery.has_begun and self._messages.all_up:
            self._name_hosts()
            check_no_device_twice(devices_of(self._messages.hellos_by_rank()))

    def advance(self) -> None:
        """Reports the surroundings once all ranks have sent Hello, while they continue to start."""
        if self._delivery.has_begun or not self._messages.all_up:
            return
        if self._requested_s is None:
            self._requested_s = time.monotonic()
            self._name_hosts()
            self._request_descriptions()
        descriptions = self._messages.descriptions
        if len(descriptions) == len(self._coordinator.hosts) or self._has_timed_out():
            surroundings = surroundings_of(
                self._coordinator,
                self._messages.hellos_by_rank(),
                dict(descriptions),
                between_devices=self._request.kind.between_devices,
                explained=self._request.explained,
            )
            self._delivery.begin(surroundings)

    def wait(self) -> None:
        """Waits for the descriptions if they are requested, and reports the surroundings."""
        self.advance()  # the last rank may have arrived just now
        while self._requested_s is not None and not self._delivery.has_begun:
            self._messages.receive(_POLL_S)
            self.advance()

    def _name_hosts(self) -> None:
        """Names the host of every device as the coordinator does.

        Ranks only know the name of their host, which another one may have too.
        """
        hosts = self._coordinator.hosts
        if len(hosts) < 2:
            return
        for rank, hello in self._messages.hellos.items():
            for device in hello.devices:
                device.host = hosts[self._layout.host_of[rank]].machine.hostname

    def _has_timed_out(self) -> bool:
        since_s = self._requested_s
        return since_s is not None and time.monotonic() > since_s + _DESCRIPTION_S

    def _request_descriptions(self) -> None:
        """Has one process per host query the vendor's interface, on this host in a thread."""
        of_host: dict[int, list[DeviceDescription]] = {}
        reach: dict[int, list[tuple[int, int]]] = {}
        for rank, hello in self._messages.hellos.items():
            host = self._layout.host_of[rank]
            of_host.setdefault(host, []).extend(hello.devices)
            reach.setdefault(host, []).extend(hello.reach)
        several = self._request.kind.between_devices and len(of_host) > 1
        first_processes: dict[int, int] = {}
        for process, host in enumerate(self._coordinator.host_of):
            first_processes.setdefault(host, process)
        for host, process in first_processes.items():
            devices = of_host.get(host, [])
            own_reach = reach.get(host, []) if several else None
            if process > 0:
                self._coordinator.meeting.server.tell(process, Describe(devices, own_reach))
                continue
            # On copies, so that a partial result of the thread is never used.
            copies = [msgspec.structs.replace(device) for device in devices]
            threading.Thread(
                target=self._describe_own, args=(copies, own_reach), daemon=True
            ).start()

    def _describe_own(
        self, devices: list[DeviceDescription], reach: list[tuple[int, int]] | None
    ) -> None:
        machine = self._coordinator.joins[0].host.machine
        self._messages.add_description(0, describe_devices(devices, machine, 0, b"", reach))
