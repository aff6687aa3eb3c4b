"""Making a lost catalog again from what tables and segments say."""
