"""Stories: each a folder with its plans and programs as a user would write them, and `story.py`, which tells it.

A story runs the real `recoup`, git, processes, browsers and databases, breaks them on purpose, and says what must hold
then. It is told by one command, `python -m examples NAME`, and the tests tell it too.
"""
