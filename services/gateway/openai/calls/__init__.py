"""What the calls of OpenAI's API share: submit a job for a request, and read what its model has written."""
