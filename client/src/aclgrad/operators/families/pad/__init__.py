"""Padding over one to three axes, by replication or by reflection."""
