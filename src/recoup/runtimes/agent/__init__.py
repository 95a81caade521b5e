"""Coding agents: build a command line, read along while the agent works, and say what came of it. Every command line's
own format stays in the file that is named after it; what an agent claims about itself is never taken as proof."""
