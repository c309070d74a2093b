"""Tables with columns of mixed types, turned into numbers and category codes."""
