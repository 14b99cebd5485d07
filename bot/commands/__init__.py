"""The `citegram` command, one file per thing it can do."""
