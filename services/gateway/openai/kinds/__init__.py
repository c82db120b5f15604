"""The kinds of models that speak OpenAI's API, each with its inputs. Pure."""
