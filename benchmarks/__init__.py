"""Benchmarks: side by side with their references in one run, as ratios. Bars are here and never in a unit test."""
