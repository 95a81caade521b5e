"""A pipeline of Python and shell steps on three workers and PostgreSQL, while workers die."""
