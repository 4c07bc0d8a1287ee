"""`make rehearsal`: the runbook of docs/first-day.md, run as it stands on the host library as each product."""
