"""``/v1/security/report``."""
