"""The commands, one a module. Each imports the library only when it runs, so that help is quick."""
