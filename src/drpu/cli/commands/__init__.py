"""The commands, one in each module; each imports the library when it runs, so help is fast."""
