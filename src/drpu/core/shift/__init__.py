"""Changes between training and new rows: of the prior, of columns, in streams."""
