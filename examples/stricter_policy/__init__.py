"""A stricter policy, tried on what has happened before it is trusted with what comes."""
