"""Pages about one run, and cases about its failures, from recorded facts. Values in, text out: only `reporter.py` reads
and writes files. Every word of a step, a log or an operator is cleaned when it enters the view and escaped when it
leaves it."""
