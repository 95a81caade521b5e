"""Clone, checkpoint, restore, diff. The only room that runs git.

Git runs on the user's repository only to read it, and on the private store. It never runs on a workspace
once that is created: a step may have left anything in its configuration and hooks. Workspaces are read and
written file by file, `.git` included, so no conversion, filter or hook can come between a file and its
checkpoint.
"""
