"""The command line: `charonia`. It needs the extra `charonia[cli]`."""
