"""`charonia batch`: runs a model on each line of a file, and goes on after it was killed."""
