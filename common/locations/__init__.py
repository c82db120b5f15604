"""Buckets beside Charonia's own store: what operators let each tenant read and write there."""
