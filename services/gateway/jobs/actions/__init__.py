"""What changes a job after its submit: cancel, retry and erase."""
