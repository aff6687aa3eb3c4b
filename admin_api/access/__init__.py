"""Who may: tokens, roles, and where the plane may listen."""
