"""Parts of what people write: strict mappings, text, numbers, durations, elements of pages, and the words for what is
wrong with them. Whole files are made of these in `documents/`, the keys of each kind of step in `steps/`.
"""
