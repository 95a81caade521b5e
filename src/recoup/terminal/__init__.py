"""What a command prints: every byte goes through one writer, so that what others wrote cannot act on a terminal.

- `writer.py`: lines for people, JSON for programs, and bytes that are exact in a pipe and clean on a terminal.
- `screen.py`: rows that are redrawn in place while lines are printed above them.
- `moments.py`: times in the zone of this machine, which is named.
- `layout.py`: cells in columns, cut to the width of the terminal.

Nothing else in Recoup prints: `tests/unit/test_layers.py` keeps that.
"""
