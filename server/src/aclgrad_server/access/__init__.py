"""Who may call: identities, their rights, and the audit of refusals."""
