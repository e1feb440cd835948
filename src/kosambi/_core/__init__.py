"""What every part stands on: types, errors, precision, linear algebra, progress. Knows nothing of the method."""
