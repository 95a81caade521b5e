"""One measurement as lines of StatsD, in the flavour that the server speaks."""

from __future__ import annotations

import re
from enum import StrEnum

from recoup.metrics.measures import NONE, Kind, Measurement

TAG_CHARACTERS_MAX = 64
_NOT_IN_A_TAG = re.compile(r"[^A-Za-z0-9_./-]")
_NOT_IN_A_SEGMENT = re.compile(r"[^A-Za-z0-9_-]")


class Flavour(StrEnum):
    PLAIN = "plain"
    """Knows no tags: their values follow the name, on a line of their own beside the total."""
    DATADOG = "datadog"


def lines_of(measurement: Measurement, flavour: Flavour) -> bytes:
    """Without the last line's end. Times are `ms` in both flavours: a histogram (`h`) is a counter to some servers."""
    name, amount = measurement.measure.name, _amount(measurement)
    if not measurement.values:
        return f"{name}:{amount}".encode()
    if flavour is Flavour.DATADOG:
        return f"{name}:{amount}|#{_tags(measurement)}".encode()
    return f"{name}:{amount}\n{name}.{_path(measurement)}:{amount}".encode()


def _amount(measurement: Measurement) -> str:
    if measurement.measure.kind is Kind.TIME:
        return f"{round(measurement.value * 1000)}|ms"
    return f"{round(measurement.value)}|c"


def _tags(measurement: Measurement) -> str:
    pairs = zip(measurement.measure.tags, measurement.values, strict=True)
    return ",".join(f"{name}:{_plain(_NOT_IN_A_TAG, value)}" for name, value in pairs)


def _path(measurement: Measurement) -> str:
    return ".".join(_plain(_NOT_IN_A_SEGMENT, value) for value in measurement.values)


def _plain(unwanted: re.Pattern[str], value: str) -> str:
    return unwanted.sub("_", value[:TAG_CHARACTERS_MAX]) or NONE
