"""The service: owns one device and answers gradient calls over gRPC."""
