"""Other systems at the same work. What is named after one runs in its environment, which has nothing of ours."""
