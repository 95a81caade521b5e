"""A process tree that took more than it may, in words that say what to do next."""

from __future__ import annotations

from recoup.model.process import Ended, EndedBy

_UNITS = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"))


def took_too_much(ended: Ended) -> str:
    """Empty where it did not."""
    match ended.ended_by:
        case EndedBy.PROCESSES_MAX:
            return (
                f"killed by Recoup: {ended.seen:,} processes at once, and the limit is {ended.limit:,}: raise "
                "`max_processes` in the plan or `step_processes_max` in the policy, or look at what the step starts"
            )
        case EndedBy.MEMORY_MAX:
            return (
                f"killed by Recoup: its processes took {size_words(ended.seen)}, and the limit is "
                f"{size_words(ended.limit)}: raise `max_memory` in the plan or `step_memory_max_bytes` in the policy, "
                "or look at what the step holds"
            )
    return ""


def size_words(size_bytes: int) -> str:
    unit_bytes, unit = next(((size, name) for size, name in _UNITS if size_bytes >= size), (1e3, "KB"))
    return f"{size_bytes / unit_bytes:.4g} {unit}"
