"""Shipped fakes and the conformance suites that every backend must pass."""
