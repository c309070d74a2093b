"""The commands, one in each module. A command imports the library only when it runs, so help is fast."""
