"""What an evaluator of failure signatures loads."""
