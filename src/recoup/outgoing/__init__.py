"""One request over HTTP to somebody else, and its answer. Knows nothing of what is said."""
