"""Notifiers: each tells a person or another system of something. One object each, which says everything about it.

    kind.py         what a notifier answers, and what it is given
    registry.py     which there are
    file.py         JSON lines in a file
    command.py      a command of the user's
    webhook.py      a signed request over HTTP
    custom.py       those that other packages bring

To add one: a module with a `NotifierKind` and a line in registry.py. A probe file can then name it under `hand_over`.
"""
