"""Why is a kernel wrong? The ledger follows its flow, likeness compares its output, both on outcomes that were judged."""
