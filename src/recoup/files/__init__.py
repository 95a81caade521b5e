"""Files by name: read what others name without harming the SQLite databases that this process has open.

A process loses all its POSIX locks on a file when it closes *any* descriptor of that file. SQLite's locks are of that
kind, so one `open(path).close()` on a database makes every other process believe that nobody has it open.

    held.py     which files those are, whether they still stand under their names, and how a connection leaves them
    named.py    the one way to read a file whose name comes from outside
    beneath.py  files below a folder that no link may leave: what steps wrote
    folders.py  folders below the home; the home itself is created only when it is opened
    ownership.py  whether only this user, and root, can change a file or folder
    mounts.py   what is mounted below a folder that is to be removed
    present.py  whether something is there, without opening it

To read a file that a person, a plan, a step or a request names, call `open_named`, `opened` or `read_named`; below
the folder of a step, `read_beneath`. To open a
SQLite database, hold it: `HeldDatabase`. `tests/unit/test_file_opens.py` lists the modules that open files themselves.
"""
