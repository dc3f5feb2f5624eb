"""From IR to IR: canonical form, axis splits and fusions, access normalisation, statement fission."""
