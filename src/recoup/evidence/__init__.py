"""Storage of what supports a verdict: evidence by content, the files of a run, and values nobody is shown."""
