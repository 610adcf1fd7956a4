"""The command line; one file a group of commands. Nothing heavy is imported before a command needs it."""
