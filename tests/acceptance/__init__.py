"""What a broker must do to be one, rule by rule, and the tests that hold each."""
