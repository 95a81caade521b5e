"""An edge: MCP becomes a call, and what comes back becomes a tool's answer. Inside a step it knows nothing but its own
attempt; outside it does what the command line does. It decides nothing."""
