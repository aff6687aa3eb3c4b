"""Write-ahead segments: group commit, recovery, reading back."""
