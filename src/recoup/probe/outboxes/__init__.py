"""Who is told when a probe's budget is spent, and the courier who goes on until they were."""
