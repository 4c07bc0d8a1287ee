"""The lab: servers under traffic and faults, a history of all of it, and validators that judge the history."""
