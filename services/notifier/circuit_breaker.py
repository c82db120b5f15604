"""The limits of an endpoint's circuit. store/attempts.sql applies them.

Failures in a row open the circuit, and any success closes it. An open circuit allows no attempt.
After its time is up it allows one attempt at a time until one succeeds. Before it opens, each
failure in a row halves the attempts in flight.
"""

# More than the attempts of one delivery, so a single rejected delivery opens no circuit.
OPEN_AFTER = 20  # failures in a row
# Seconds for the failure that opens the circuit, and for each further one.
OPEN_SECONDS = (10.0, 20.0, 40.0, 80.0, 160.0, 300.0)
