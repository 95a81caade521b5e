"""Runs, for whoever asks: submitted, driven, looked up, their secrets hidden. Given all it needs; builds nothing."""
