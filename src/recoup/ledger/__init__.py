"""Storage of the ledger: one file per backend, SQL in named queries. Decides nothing."""
