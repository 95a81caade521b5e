"""Finding the same element on a changed page, or abstaining. Values in, values out: the only file read is the shipped weights."""
