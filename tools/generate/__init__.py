"""What is written from the source and kept in version control, so that an installation needs no generator."""
