"""An edge: argv becomes a call, and what comes back becomes text, JSON and an exit code."""
