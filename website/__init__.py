"""`make docs`: the documentation as a site in build/site, which also works from the file system."""
