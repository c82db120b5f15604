"""The circuit of an endpoint: opened by failures in a row, closed by any success.

While it is open nothing is attempted; after that one attempt at a time, until one succeeds. Before it opens, each
failure in a row halves how many attempts the endpoint may have under way at a time. queries.sql applies it.
"""

# More than a delivery has attempts, so that one that is refused time and again opens no circuit by itself.
OPEN_AFTER = 20  # failures in a row
# Seconds for the first failure that opens it, and for each further one.
OPEN_SECONDS = (10.0, 20.0, 40.0, 80.0, 160.0, 300.0)
