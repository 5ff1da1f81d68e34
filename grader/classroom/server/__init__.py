"""The course server: a door to the batch's engine, journal and reports, with tokens, a fair queue and pages. It grades nothing itself."""
