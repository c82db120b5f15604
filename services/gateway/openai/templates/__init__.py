"""Chat templates: how messages become the prompt of a model that takes one text."""
