"""Plain objects that other packages pass on: what a fit keeps, and how it is recorded."""
