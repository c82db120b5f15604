"""The inputs of jobs: inline, in files, or in a tenant's bucket."""
