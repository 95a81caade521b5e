"""Numbers and spans for those who watch from outside, made from events that are stored already. Nothing waits for it,
nothing fails because of it, and what it cannot pass on it counts."""
