"""Pure functions from snapshot, selection and size to rows of cells."""
