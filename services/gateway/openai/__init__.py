"""OpenAI's API below /openai/v1: a call is translated to a job, and the job to an answer."""
