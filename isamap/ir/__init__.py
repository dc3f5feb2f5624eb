"""The intermediate representation: frozen nodes, dtypes, affine expressions, printer, verifier, interpreter."""
