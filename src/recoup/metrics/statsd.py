"""StatsD over UDP: packets that leave at once or not at all."""

from __future__ import annotations

import errno
import socket
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from recoup.metrics.measures import DROPPED, Measurement
from recoup.metrics.resolver import Address, Resolver
from recoup.metrics.statsd_lines import Flavour, lines_of

PACKET_BYTES_MAX = 1432
"""Fits into one Ethernet frame, whatever stands around it."""
PACKETS_MAX = 64
"""That wait for an address."""


class Packet(NamedTuple):
    data: bytes
    measurements: int
    dropped_told: int = 0
    """How many drops it reports; such a packet is no measurement itself."""


def connect(address: Address) -> socket.socket:
    """Connected, so that a refusal is heard of; sends nothing."""
    made = socket.socket(address.family, socket.SOCK_DGRAM)
    made.setblocking(False)
    try:
        made.connect(address.sockaddr)
    except OSError:
        made.close()
        raise
    return made


class StatsdSink:
    """Every measurement it was given was sent, was dropped, or waits: the three add up.

    Sent means that the kernel took it and that nothing has come back: UDP promises no more.
    """

    def __init__(
        self,
        resolver: Resolver,
        flavour: Flavour = Flavour.PLAIN,
        connect: Callable[[Address], socket.socket] = connect,
    ) -> None:
        self.measured = self.sent = self.dropped = 0
        self._resolver, self._flavour, self._connect = resolver, flavour, connect
        self._lines: list[bytes] = []
        self._lines_bytes = 0
        self._lines_measurements = 0
        self._packets: deque[Packet] = deque()
        self._known: tuple[Address, ...] = ()
        self._at = 0
        self._socket: socket.socket | None = None
        self._last: Packet | None = None
        """What left last: a refusal that is heard of later is about it."""
        self._refusals = 0
        self._dropped_told = 0

    @property
    def waiting(self) -> int:
        return self._lines_measurements + sum(packet.measurements for packet in self._packets)

    def add(self, measurement: Measurement) -> None:
        self.measured += 1
        data = lines_of(measurement, self._flavour)
        if self._lines_bytes + len(data) > PACKET_BYTES_MAX:
            self._end_packet()
        if len(data) > PACKET_BYTES_MAX:
            self.dropped += 1
            return
        self._lines.append(data)
        self._lines_bytes += len(data) + 1
        self._lines_measurements += 1

    def flush(self) -> None:
        """Whatever can leave now leaves; whatever a socket refuses is dropped. Never waits."""
        self._end_packet()
        sent_before = self.sent
        while self._packets and self._ready():
            self._send(self._packets.popleft())
            self._own_up()
        if self.sent > sent_before and self.dropped > self._dropped_told:
            self._tell_dropped()

    def close(self, wait_s: float = 0) -> None:
        """Sends what is left; what has no address by then is dropped."""
        if not self._known:
            self._resolver.addresses()
            self._resolver.wait(wait_s)
        self.flush()
        self.dropped += self.waiting
        self._packets.clear()
        self._disconnect()

    def _end_packet(self) -> None:
        if not self._lines:
            return
        self._packets.append(Packet(b"\n".join(self._lines), self._lines_measurements))
        self._lines, self._lines_bytes, self._lines_measurements = [], 0, 0
        while len(self._packets) > PACKETS_MAX:
            self.dropped += self._packets.popleft().measurements

    def _ready(self) -> bool:
        """There is a socket, connected to where the host is now."""
        addresses = self._resolver.addresses()
        if addresses != self._known:
            self._disconnect()
            self._known, self._at, self._refusals = addresses, 0, 0
        self._own_up()
        if self._socket is None and self._known:
            self._dial()
        return self._socket is not None

    def _dial(self) -> None:
        for _ in self._known:
            try:
                self._socket = self._connect(self._known[self._at])
                return
            except OSError:
                self._at = (self._at + 1) % len(self._known)
        while self._packets:  # no address can be reached from here
            self.dropped += self._packets.popleft().measurements

    def _send(self, packet: Packet) -> None:
        assert self._socket is not None, "a socket is ready before anything is sent"
        try:
            self._socket.send(packet.data)
        except OSError as error:
            self.dropped += packet.measurements
            if error.errno == errno.ECONNREFUSED:
                self._refused()
            return
        self.sent += packet.measurements
        self._dropped_told += packet.dropped_told
        self._last = packet

    def _own_up(self) -> None:
        """Was the last packet refused? Asked before the next one, which would get the answer in its place."""
        if self._socket is None or self._last is None:
            return
        if self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self._refused()
        else:
            self._refusals = 0

    def _refused(self) -> None:
        """Nobody listens there. The host's other addresses get their turn, each of them once."""
        packet, self._last = self._last, None
        self._refusals += 1
        elsewhere = self._refusals % len(self._known) != 0
        if packet is not None:
            self.sent -= packet.measurements
            self._dropped_told -= packet.dropped_told
            if elsewhere:
                self._packets.appendleft(packet)
            else:
                self.dropped += packet.measurements
        if elsewhere:
            self._disconnect()
            self._at = (self._at + 1) % len(self._known)

    def _tell_dropped(self) -> None:
        if self._ready():
            untold = self.dropped - self._dropped_told
            data = lines_of(Measurement(DROPPED, untold, ("statsd",)), self._flavour)
            self._send(Packet(data, 0, untold))

    def _disconnect(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self._socket = self._last = None
