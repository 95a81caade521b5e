"""Finding the same element on a changed page, or abstaining.

Values in, values out. The only file that is read is the shipped weights.
"""
