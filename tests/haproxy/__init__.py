"""HAProxy as deployed, before a host of two workers: `make test-deploy`."""
