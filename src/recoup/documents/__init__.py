"""Files that people write become model values here, or all their problems at once, with line and path."""
