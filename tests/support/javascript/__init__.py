"""The programs of the JavaScript guide: typed, compiled and run as a reader would."""
