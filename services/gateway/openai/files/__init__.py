"""Files in OpenAI's words: uploads by form, and the outputs of batches."""
