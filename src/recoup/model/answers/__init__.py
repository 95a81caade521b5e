"""What programs are answered, over HTTP and as `--json` prints it. The OpenAPI document is made from these types.

One file per subject. To add an answer, write its class here, and name it with `answers(…)` at its route.
"""
