"""The ledger on PostgreSQL, for any number of machines. Loaded only when the settings name such a database."""
