"""Why an instruction does not perform a statement, and the edits that mend it."""
