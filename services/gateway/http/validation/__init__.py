"""What is wrong with a value that a client sent, in words that help."""
