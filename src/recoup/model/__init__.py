"""Nouns: frozen values and enums that check themselves when made. They do nothing else."""
