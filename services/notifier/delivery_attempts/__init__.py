"""The results of delivery attempts, and what follows from each."""
