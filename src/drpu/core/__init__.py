"""Pure mathematics on numpy and scipy: no state, no files, no estimators."""
