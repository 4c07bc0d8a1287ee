"""The service: owns the devices of a host and answers gradient calls over gRPC."""
