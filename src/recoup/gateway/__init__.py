"""An edge: HTTP becomes a call, and what comes back becomes JSON, a stream or a problem. It decides nothing."""
