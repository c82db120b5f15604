"""The notifier's SQL, one typed function per statement, one module per capability."""
