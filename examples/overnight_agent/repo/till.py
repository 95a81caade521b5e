"""What a till has to reckon. There are three mistakes in it."""


def cents(amount: float) -> int:
    """1.15 is 115 cents."""
    return int(amount * 100)


def leap(year: int) -> bool:
    """Whether the year has a 29th of February."""
    return year % 4 == 0


def share(total: int, people: int) -> list[int]:
    """A bill, shared so that not a cent is lost; the first ones pay what cannot be divided."""
    return [total // people] * people
