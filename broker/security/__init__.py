"""Principals, authentication, authorisation, quotas."""
