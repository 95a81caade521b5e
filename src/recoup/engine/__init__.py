"""The attempt loop: the only place that turns a decision about a run into effects."""
