"""How the resolver's weights are made: questions with known answers in, numbers out."""
